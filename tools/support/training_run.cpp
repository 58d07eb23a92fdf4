#include "support/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <initializer_list>

#include "core/parsed_number.hpp"
#include "core/quantity.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::program {
namespace {

namespace column = metrics_column;

/// The row of these cells. Throws ValueError that names the error in them.
MetricsRow row_of(const std::vector<std::string>& columns, const std::vector<std::string>& cells,
                  const std::vector<Metric>& metrics) {
  const auto refusal = [&](std::size_t place, const char* expected) {
    return ValueError(fmt::format("'{}' is no {}", cells[place].substr(0, 20), expected));
  };
  const auto possible = [&](std::size_t place) -> std::optional<double> {
    if (cells[place].empty()) return std::nullopt;
    const std::optional<double> value = parsed_number<double>(cells[place]);
    if (!value) throw refusal(place, "number");
    return std::isfinite(*value) ? value : std::nullopt;
  };
  const std::optional<std::int64_t> at_step = parsed_number<std::int64_t>(cells[column::step]);
  if (!at_step) throw refusal(column::step, "whole number");
  const std::optional<double> after = possible(column::seconds);
  if (!after || *after < 0) throw refusal(column::seconds, "time");
  MetricsRow row{*at_step,
                 *after,
                 possible(column::loss),
                 possible(column::gradient_norm),
                 possible(column::learning_rate),
                 possible(column::orthogonality_error),
                 possible(column::evaluation_loss),
                 possible(column::reflection_norm)};
  for (const Metric& metric : metrics) {
    if (const std::optional<double> value = possible(place_of_column(columns, metric.name)))
      row.metrics.push_back({metric, *value});
  }
  return row;
}

/// Throws FileError for the first line of another file.
void check_header(const fs::path& file, const std::vector<std::string>& header) {
  const std::vector<std::string> columns = metrics_columns({});
  for (const auto needed : {column::step, column::seconds, column::loss, column::learning_rate,
                            column::orthogonality_error, column::evaluation_loss}) {
    if (place_of_column(header, columns[needed]) == header.size()) {
      throw FileError(fmt::format("'{}' is no metrics.csv of orthornn train: it has no column '{}'",
                                  file.string(), columns[needed]));
    }
  }
}

}  // namespace

std::vector<std::string> metrics_columns(const std::vector<Metric>& metrics) {
  std::vector<std::string> columns = cells_of(first_columns);
  columns.emplace_back("reflection_norm");  // of the second version
  for (const Metric& metric : metrics) {
    if (place_of_column(columns, metric.name) == columns.size()) columns.push_back(metric.name);
  }
  return columns;
}

std::size_t place_of_column(const std::vector<std::string>& columns, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(columns, name) - columns.begin());
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells(1);
  for (const char c : row) {
    if (c == ',') {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<std::string> in_columns(const std::vector<std::string>& columns,
                                    const std::vector<std::string>& columns_of_file,
                                    const std::vector<std::string>& cells) {
  std::vector<std::string> moved;
  for (const std::string& column : columns) {
    const std::size_t place = place_of_column(columns_of_file, column);
    moved.push_back(place < cells.size() ? cells[place] : "");
  }
  return moved;
}

const MetricsRow* TrainingRun::last_evaluation() const {
  const auto found =
      std::find_if(rows.rbegin(), rows.rend(), [](const MetricsRow& row) { return row.evaluation_loss; });
  return found == rows.rend() ? nullptr : &*found;
}

const MetricsRow* TrainingRun::best_evaluation() const {
  const MetricsRow* best = nullptr;
  for (const MetricsRow& row : rows) {
    if (row.evaluation_loss && (best == nullptr || *row.evaluation_loss < *best->evaluation_loss))
      best = &row;
  }
  return best;
}

void read_metrics(TrainingRun& run, const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw FileError(fmt::format("cannot read '{}': {}", file.string(), std::strerror(errno)));
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> header = cells_of(line), columns = metrics_columns(run.metrics);
  check_header(file, header);
  int left_out = 0;
  std::string why;
  for (int line_number = 2; std::getline(stream, line); ++line_number) {
    if (stream.eof()) {
      run.notes.push_back("the last row of metrics.csv is half written and left out");
      break;
    }
    try {
      const std::vector<std::string> cells = cells_of(line);
      if (cells.size() != header.size())
        throw ValueError(fmt::format("it has {} cells, expected {}", cells.size(), header.size()));
      const MetricsRow row = row_of(columns, in_columns(columns, header, cells), run.metrics);
      const std::int64_t last = run.rows.empty() ? 0 : run.rows.back().step;
      if (row.step <= last) throw ValueError(fmt::format("step {} does not come after {}", row.step, last));
      run.rows.push_back(row);
    } catch (const ValueError& error) {
      if (left_out++ == 0) why = fmt::format("line {}: {}", line_number, error.what());
    }
  }
  if (left_out > 0) {
    run.notes.push_back(fmt::format("{} of metrics.csv left out, {}", quantity(left_out, "row"), why));
  }
  if (run.rows.empty()) run.notes.push_back("no step is logged yet");
}

}  // namespace orthornn::program
