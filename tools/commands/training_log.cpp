#include "commands/training_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "commands/standard_streams.hpp"
#include "commands/terminal_line.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "support/number_text.hpp"

namespace orthornn::program {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string line_of(const std::vector<std::string>& cells) {
  return fmt::format("{}\n", fmt::join(cells, ","));
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& file, std::int64_t steps,
                         const std::vector<Metric>& metrics)
    : file_(file), columns_(metrics_columns(metrics)), written_(line_of(columns_)) {
  std::ifstream old(file);
  if (!old && steps > 0 && is_present(file))
    throw FileError(fmt::format("cannot read '{}': {}", file.string(), std::strerror(errno)));
  std::string line;
  std::vector<std::string> old_columns;
  // A run that was killed may have logged steps that its model file does not have yet.
  for (bool first = true; steps > 0 && std::getline(old, line); first = false) {
    char* rest = nullptr;
    if (first) {
      old_columns = cells_of(line);
      continue;
    }
    const std::int64_t step = std::strtoll(line.c_str(), &rest, 10);
    if (step > steps || *rest != ',') continue;
    seconds_before_ = std::strtod(rest + 1, nullptr);
    line = old_columns == columns_ ? line + "\n" : line_of(in_columns(columns_, old_columns, cells_of(line)));
    (step == steps ? resumed_row_ : written_) += line;
    std::vector<std::string> cells = cells_of(line.substr(0, line.size() - 1));
    cells.resize(columns_.size());
    if (!cells[metrics_column::evaluation_loss].empty()) evaluated_.push_back(step);
  }
  has_evaluation_ = !resumed_cells()[metrics_column::evaluation_loss].empty();
  last_seconds_ = seconds_before_;
  file_.start(written_ + resumed_row_);
}

std::vector<std::string> MetricsFile::resumed_cells() const {
  std::vector<std::string> cells = cells_of(resumed_row_.substr(0, resumed_row_.find('\n')));
  cells.resize(columns_.size());
  return cells;
}

Index MetricsFile::evaluations_after(std::int64_t step) const {
  return std::ranges::count_if(evaluated_, [&](std::int64_t evaluated) { return evaluated > step; });
}

void MetricsFile::add(const Evaluation& evaluation) {
  if (resumed_row_.empty()) return;
  std::vector<std::string> cells = resumed_cells();
  set_evaluation(cells, evaluation);
  resumed_row_ = line_of(cells);
  file_.forget();
}

void MetricsFile::set_evaluation(std::vector<std::string>& cells, const Evaluation& evaluation) const {
  cells[metrics_column::evaluation_loss] = fmt::format("{:.8g}", evaluation.loss);
  for (const auto& [metric, value] : evaluation.metrics) {
    cells[place_of_column(columns_, metric.name)] =
        metric.is_share ? fmt::format("{:.6f}", value) : fmt::format("{:.8g}", value);
  }
}

void MetricsFile::add(const LoggedStep& logged) {
  const std::string now = fmt::format("{:.3f}", seconds());
  last_seconds_ = std::strtod(now.c_str(), nullptr);
  const std::optional<double>&error = logged.orthogonality_error, &norm = logged.reflection_norm;
  std::vector<std::string> cells = {std::to_string(logged.step.step),
                                    now,
                                    fmt::format("{:.8g}", logged.step.loss()),
                                    fmt::format("{:.8g}", logged.step.gradient_norm()),
                                    fmt::format("{:.8g}", logged.learning_rate),
                                    error ? fmt::format("{:.3e}", *error) : "",
                                    "",
                                    "",
                                    norm ? fmt::format("{:.8g}", *norm) : ""};
  cells.resize(columns_.size());
  if (logged.evaluation) set_evaluation(cells, *logged.evaluation);
  new_rows_ += line_of(cells);
}

void MetricsFile::write() {
  file_.append(new_rows_, [this] { return written_ + resumed_row_; });
  if (new_rows_.empty()) return;
  written_ += resumed_row_ + new_rows_;
  resumed_row_.clear();
  new_rows_.clear();
}

double MetricsFile::seconds() const { return seconds_before_ + seconds_since(start_); }

ProgressLine::ProgressLine(std::int64_t first_step, std::int64_t steps, double baseline, ProgressPlace place)
    : place_(std::move(place)),
      terminal_(isatty(descriptor_of(place_.stream)) != 0),
      first_step_(first_step),
      steps_(steps),
      baseline_(baseline) {}

bool ProgressLine::due(bool row, bool last) const {
  const double waited = seconds_since(printed_);
  if (place_.passing) return waited > (terminal_ ? 0.2 : 2.0);
  return last || (terminal_ ? waited > 0.2 : row);
}

void ProgressLine::print(const TrainingStep& step, std::optional<double> orthogonality_error,
                         const std::optional<Evaluation>& evaluation) {
  printed_ = Clock::now();
  if (evaluation) evaluation_ = evaluation;
  const double rate = static_cast<double>(step.step - first_step_) / std::max(seconds_since(start_), 1e-9);
  // What a user looks for first is left out last.
  std::vector<LinePart> parts = {
      {0, fmt::format("{}step {}/{}", place_.label, step.step, steps_)},
      {4, fmt::format("  {:.1f} steps/s", rate)},
      {2, fmt::format("  left {}", duration(static_cast<double>(steps_ - step.step) / rate))},
      {1, fmt::format("  loss {:.3g}", step.loss())},
      {5, fmt::format(" (guesser {:.3g})", baseline_)}};
  if (orthogonality_error) parts.push_back({6, fmt::format("  |I-A'A| {:.1e}", *orthogonality_error)});
  if (evaluation_) {
    parts.push_back(
        {3, fmt::format("  validation: loss {:.3g}{}", evaluation_->loss, metrics_text(*evaluation_))});
  }
  const int descriptor = descriptor_of(place_.stream);
  const Index columns = terminal_ ? terminal_columns(descriptor) : std::numeric_limits<Index>::max();
  const std::string text = fitted_line(std::move(parts), columns);
  std::fputs((terminal_ ? "\r\033[K" + text : text + "\n").c_str(), place_.stream);
  open_ = terminal_;
  std::fflush(place_.stream);
}

void ProgressLine::finish() noexcept {
  if (!open_) return;
  std::fputs(place_.passing ? "\r\033[K" : "\n", place_.stream);
  std::fflush(place_.stream);
  open_ = false;
}

}  // namespace orthornn::program
