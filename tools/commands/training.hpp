#pragma once
// One training in a run directory.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "commands/event_log.hpp"
#include "commands/folder_lock.hpp"
#include "commands/saved_training.hpp"
#include "commands/train_settings.hpp"
#include "commands/training_log.hpp"
#include "commands/unwritten_files.hpp"
#include "core/checked_json.hpp"

namespace orthornn::program {

/// How a training ended.
struct TrainingEnd {
  /// On validation data, after the last step.
  Evaluation validation = {};
  bool solved = false;
  /// Whether it ended by --patience, before its last step.
  bool out_of_patience = false;
};

/// "loss 0.1, 97.00 % right"
std::string describe(const Evaluation& evaluation);

/// A training as `orthornn train` makes it: what it computes, and the run directory that it fills.
class Training {
 public:
  /// Opens the run directory and takes the state of its training where `settings.resume` asks for that. Reads
  /// the task's data. The settings are complete, and what made `task`; both must outlive it. Throws
  /// UsageError for settings of which no model can be made, and FileError for data and folders that are not
  /// as they must be. `unwritten` gets the files that cannot be written during the training, and must outlive
  /// it.
  Training(CLI::App& command, const TrainSettings& settings, const Task& task, const Execution& execution,
           UnwrittenFiles& unwritten);

  /// Trains to the last step, to --until-solved or until --patience is at its end, with everything saved but
  /// what is in `unwritten`. Throws DivergenceError, and Interrupted where a StopOnSignal lives and a stop is
  /// asked for: everything is saved then too, and a training that resumes this one makes a validation that
  /// was left.
  TrainingEnd run(const ProgressPlace& place = {});

  Trainer& trainer() { return *trainer_; }
  const SavedTraining& saved() const { return saved_; }
  /// What `recurrences` returns for the model.
  const Json& cells() const { return cells_; }
  /// Whether it was to go on, and there was nothing to go on from.
  bool starts_anew() const { return settings_.resume && !goes_on_; }
  bool nothing_is_left() const { return nothing_is_left_; }
  /// What --init-from has given; nothing without it, and for a training that goes on.
  const std::optional<TakenParameters>& taken() const { return taken_; }
  /// Seconds of training up to now, those before a resumption included.
  double seconds() const { return metrics_->seconds(); }
  /// The seconds in the last row of metrics.csv.
  double logged_seconds() const { return metrics_->last_seconds(); }

 private:
  const TrainSettings& settings_;
  const Task& task_;
  SavedTraining saved_;
  bool goes_on_ = false;
  bool nothing_is_left_ = false;
  /// Validations in a row, up to the last one, that did not improve the best one.
  Index failed_evaluations_ = 0;
  std::optional<TakenParameters> taken_;
  std::unique_ptr<Model<float>> model_;
  std::unique_ptr<Trainer> trainer_;
  Json cells_;
  std::optional<FolderLock> lock_;
  /// Shared with `unwritten_`, which may write it after the end of this training.
  std::shared_ptr<MetricsFile> metrics_;
  /// Shared likewise; null without --tensorboard.
  std::shared_ptr<EventLog> events_;
  std::optional<ProgressLine> progress_;
  UnwrittenFiles& unwritten_;

  std::unique_ptr<Model<float>> first_model(const Execution& execution);
  void write(const std::filesystem::path& file, std::function<void()> write);
  /// Saves the state of the training in these files, in this order.
  void save(std::span<const std::filesystem::path> files);
  void write_metrics();
  /// Whether the evaluations in a row that have not improved the best loss are as many as --patience.
  bool is_out_of_patience() const;
  /// The validation that a training which goes on finds missing at its first step.
  void log_missing(const Evaluation& evaluation);
  void log(const TrainingStep& step, std::optional<double> orthogonality_error,
           const std::optional<Evaluation>& evaluation);
  TrainingEnd take_steps(const ProgressPlace& place);
};

}  // namespace orthornn::program
