#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn::program {

/// A row of metrics.csv; what it leaves open, and what is no finite number, is nullopt.
struct MetricsRow {
  std::int64_t step = 0;
  double seconds = 0;
  std::optional<double> loss, learning_rate, orthogonality_error, evaluation_loss, accuracy;
};

/// What `orthornn train` has left in a run directory so far.
struct TrainingRun {
  std::filesystem::path folder;
  std::string task;  // with what tells it from others: "copying, delay 200"
  std::string cell;
  Index hidden = 0;
  /// 0 for cells that have none.
  Index reflections = 0;
  /// nullopt as long as there is no model.h5.
  std::optional<Index> parameters;
  /// What was asked for.
  std::int64_t steps = 0;
  double baseline = 0;
  /// Whether the last evaluation solves the task.
  bool solved = false;
  std::vector<MetricsRow> rows;
  /// What a reader should know of it: rows that were left out, and why.
  std::vector<std::string> notes;

  /// The last row with an evaluation, and that with the lowest validation loss; nullptr before the first.
  const MetricsRow* last_evaluation() const;
  const MetricsRow* best_evaluation() const;
};

/// Adds the rows of a metrics.csv, and notes what is left out. Throws FileError for a file that is none.
void read_metrics(TrainingRun& run, const std::filesystem::path& file);

/// Reads config.toml, metrics.csv and model.h5 of a run, also of one that is under way. Throws FileError for
/// a folder that is no run and for files that are damaged, UsageError for a configuration that cannot be.
TrainingRun read_training_run(const std::filesystem::path& folder);

}  // namespace orthornn::program
