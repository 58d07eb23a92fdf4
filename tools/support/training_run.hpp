#pragma once
// What is in the run directories of `orthornn train`.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/checked_json.hpp"
#include "orthornn/nn/delta_observation.hpp"
#include "orthornn/tasks/task.hpp"
#include "orthornn/text/parallel_text.hpp"
#include "orthornn/train/translator.hpp"
#include "support/files.hpp"

namespace orthornn::program {

/// How the first line of every metrics.csv begins. The first version had no more columns.
inline constexpr const char* first_columns =
    "step,seconds,loss,gradient_norm,learning_rate,orthogonality_error,evaluation_loss,accuracy";
/// The places of some columns.
namespace metrics_column {
enum Place : std::size_t {
  step,
  seconds,
  loss,
  gradient_norm,
  learning_rate,
  orthogonality_error,
  evaluation_loss,
  reflection_norm = 8
};
}

/// The columns for a task with these metrics, which come last, but for the accuracy.
std::vector<std::string> metrics_columns(const std::vector<Metric>& metrics);
/// The number of columns for a name that is not among them.
std::size_t place_of_column(const std::vector<std::string>& columns, const std::string& name);
/// The cells of a row: "a,,b" gives a, nothing and b.
std::vector<std::string> cells_of(const std::string& row);
/// The cells in the order of other columns than those of their file, of an earlier version of orthornn or of
/// the task; "" where the file has none.
std::vector<std::string> in_columns(const std::vector<std::string>& columns,
                                    const std::vector<std::string>& columns_of_file,
                                    const std::vector<std::string>& cells);

/// A row of metrics.csv. Empty fields and numbers that are not finite are nullopt.
struct MetricsRow {
  std::int64_t step = 0;
  double seconds = 0;
  std::optional<double> loss, gradient_norm, learning_rate, orthogonality_error, evaluation_loss,
      reflection_norm;
  /// On validation data: those that the row has.
  std::vector<MetricValue> metrics = {};

  /// The evaluation of a row with an `evaluation_loss`.
  Evaluation evaluation() const { return {*evaluation_loss, metrics}; }
};

/// Share of right answers at a step of the sequences, 1 for the first.
struct StepAccuracy {
  Index step = 0;
  double share = 0;
};

/// How a model translates a sentence, and what it attends to. The reference is "" if there is none.
struct AttentionMap {
  SentencePair sentence;
  AlignedTranslation found;
};

/// Target numbers and a model's outputs for them, in the units of the data.
struct AnsweredNumbers {
  std::vector<float> targets = {}, outputs = {};
};

/// A picture in a page.
struct Picture {
  std::string title, caption;
  /// Pixels of the screen that it takes.
  Index height = 0, width = 0;
  /// The bytes of a PNG file, which may be an animation.
  std::string png;
};

/// What a model answers on test data of own sequences.
struct Answers {
  /// Where targets are classes: the names of some classes and perhaps "others", and how many targets of each
  /// had each answer, [class][class].
  std::vector<std::string> classes = {};
  std::vector<std::vector<Index>> counts = {};
  /// Where targets are numbers of each step: those of a few sequences, [sequence][column], a number a step.
  std::vector<std::vector<AnsweredNumbers>> sequences = {};
  /// Where targets are numbers of a sequence: [column], a number a sequence.
  std::vector<AnsweredNumbers> columns = {};
  /// Batches of test data that were looked at, and all.
  Index batches = 0, all_batches = 0;
};

/// A saved model on test data.
struct TestedModel {
  /// Its name in the run directory; empty where it could not be saved.
  std::string model;
  std::int64_t step = 0;
  Evaluation evaluation = {};
};

/// What results.json of a run directory says.
struct TrainingResults {
  /// `Task::config()`
  Json task = {};
  std::uint64_t seed = 0;
  std::int64_t steps = 0;
  /// What ended the training: "steps", "solved" (--until-solved) or "patience"; empty in files of earlier
  /// versions.
  std::string ended_by = {};
  bool solved = false;
  /// The time of the training, without its evaluation on test data.
  double seconds = 0;
  double baseline = 0;
  /// Numbers in all parameters; nothing in files of earlier versions.
  std::optional<Index> parameters = {};
  /// On validation data, after the last step.
  Evaluation validation = {};
  TestedModel last = {};
  /// The model of the smallest validation loss; nothing where it could not be evaluated.
  std::optional<TestedModel> best = {};
  /// What the best model is worth as a translator, or the last where there is no best one; null for other
  /// tasks than translate.
  Json translations = {};
  /// What made the file: the command, the machine, and a git commit. It is not read back.
  Json origin = {};

  const TestedModel& best_or_last() const { return best ? *best : last; }
};

/// What a page shows of a run directory.
struct TrainingRun {
  std::filesystem::path folder;
  /// The name of the folder, with as much of its path as distinguishes it on its page, which sets it.
  std::string name;
  std::string task;  // with its size: "copying, delay 200"
  std::uint64_t seed = 0;
  /// The text of all settings but the seed.
  std::string settings = {};
  std::string cell;
  Index hidden = 0;
  /// 0 for cells without reflections.
  Index reflections = 0;
  /// nullopt until there is a model.h5.
  std::optional<Index> parameters;
  /// The number of steps in the configuration.
  std::int64_t steps = 0;
  /// nullopt where only the data tell it.
  std::optional<double> baseline = {};
  /// Whether the last evaluation solves the task.
  bool solved = false;
  /// Metrics of the task.
  std::vector<Metric> metrics = {};
  std::vector<MetricsRow> rows;
  /// On test data with longer sequences than those that were trained on, where the task has such; steps
  /// without an answer are left out.
  std::vector<StepAccuracy> step_accuracies = {};
  /// Steps of the sequences that were trained on.
  Index trained_length = 0;
  /// Along a test sequence, whose steps before ranks were computed are `rank_steps`; 0 for the first.
  std::vector<DeltaObservation> delta_products = {};
  std::vector<Index> rank_steps = {};
  /// Angles in degrees, 0 to 180, of the eigenvalues of each orthogonal Q of the best model, [layer].
  std::vector<std::vector<double>> eigenvalue_angles = {};
  /// Of a run of the task sequences whose data are there.
  std::optional<Answers> answers = {};
  /// Of a run of the task video whose data are there.
  std::vector<Picture> pictures = {};
  /// Of a run of the task translate.
  std::vector<AttentionMap> attention = {};
  /// Nothing until the training has ended.
  std::optional<TrainingResults> results = {};
  /// Scores of the translations in `results`.
  std::optional<double> bleu = {}, chrf = {};
  /// Notes for the reader: rows that were left out, and why.
  std::vector<std::string> notes;

  /// The last row with an evaluation, and the row with the lowest validation loss; nullptr without
  /// evaluations.
  const MetricsRow* last_evaluation() const;
  const MetricsRow* best_evaluation() const;
};

/// Mean, standard deviation and median of a number that several trainings have.
struct Spread {
  std::string name;
  double mean = 0, deviation = 0, median = 0;
};

/// What a page shows of trainings that differ in the seed alone.
struct SeedsRun {
  std::filesystem::path folder;
  std::vector<Spread> spreads;
};

/// Adds the rows of a metrics.csv, with `run.metrics`, and notes which rows are left out. Throws FileError
/// for another file.
void read_metrics(TrainingRun& run, const std::filesystem::path& file);

}  // namespace orthornn::program
