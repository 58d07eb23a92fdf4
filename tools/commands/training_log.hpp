#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "commands/appended_file.hpp"
#include "orthornn/orthornn.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// What there is to log of a step. `orthogonality_error` and `reflection_norm` are empty for other cells.
struct LoggedStep {
  const TrainingStep& step;
  double learning_rate;
  std::optional<double> orthogonality_error;
  const std::optional<Evaluation>& evaluation;
  std::optional<double> reflection_norm;
};

/// metrics.csv of a run directory: a row every so many steps, with the columns of `metrics_columns`. A cell
/// is empty where there is nothing to log: orthogonality_error and reflection_norm for other cells,
/// evaluation_loss and the metrics where no evaluation was made. Rows are whole, also on a disk that was
/// full.
class MetricsFile {
 public:
  /// Starts anew, or keeps the rows up to `steps` of a training that is resumed. Rows that lack the last
  /// columns, of an earlier version, get empty cells. Throws FileError.
  MetricsFile(const std::filesystem::path& file, std::int64_t steps, const std::vector<Metric>& metrics);
  /// A row for `write`.
  void add(const LoggedStep& logged);
  /// Whether the training is resumed at a step whose row has an evaluation.
  bool has_evaluation() const { return has_evaluation_; }
  /// For `write`, an evaluation in the row of the step at which the training is resumed, if there is one. It
  /// is for the time before the first row.
  void add(const Evaluation& evaluation);
  /// Evaluations that the file has after that of a step.
  Index evaluations_after(std::int64_t step) const;
  /// Writes what was added, or all rows where the file is gone. Throws FileError where not all of it could be
  /// written; the next call tries again.
  void write();
  /// Seconds of training up to now, those before a resumption included.
  double seconds() const;
  /// The seconds that the last row has.
  double last_seconds() const { return last_seconds_; }
  const std::filesystem::path& file() const { return file_.path(); }

 private:
  void set_evaluation(std::vector<std::string>& cells, const Evaluation& evaluation) const;
  std::vector<std::string> resumed_cells() const;

  AppendedFile file_;
  std::vector<std::string> columns_;
  /// The header and the rows that are written, but for the row of the step at which the training is resumed,
  /// until a row comes after it.
  std::string written_, resumed_row_;
  /// Rows that are not written yet.
  std::string new_rows_;
  bool has_evaluation_ = false;
  /// Steps of the rows that are kept and have an evaluation.
  std::vector<std::int64_t> evaluated_;
  double seconds_before_ = 0, last_seconds_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Where the progress of a training goes.
struct ProgressPlace {
  std::FILE* stream = stdout;
  /// What begins each line.
  std::string label = {};
  /// For a training that is one of several: its line vanishes with its end. Where there is no terminal, a
  /// line comes every two seconds, in place of one for each row of metrics.csv.
  bool passing = false;
};

/// The progress of a training on the terminal: one line that is written over, or plain lines when output goes
/// elsewhere.
class ProgressLine {
 public:
  ProgressLine(std::int64_t first_step, std::int64_t steps, double baseline, ProgressPlace place);
  ~ProgressLine() { finish(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Whether a line is due after this step, which may have a row in metrics.csv or be the last: often on a
  /// terminal, at the rows elsewhere.
  bool due(bool row, bool last) const;
  void print(const TrainingStep& step, std::optional<double> orthogonality_error,
             const std::optional<Evaluation>& evaluation);
  /// Leaves the line that was being written over, as its end does: an error message gets a line of its own.
  void finish() noexcept;

 private:
  ProgressPlace place_;
  bool terminal_;
  std::int64_t first_step_;
  std::int64_t steps_;
  double baseline_;
  std::optional<Evaluation> evaluation_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point printed_ = start_;
  bool open_ = false;
};

}  // namespace orthornn::program
