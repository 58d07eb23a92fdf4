#include "pages/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "orthornn/core/error.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

/// Reads "12.5", "nan" and the like, or whole numbers, to the end; nullopt for any other text.
template <class Number>
std::optional<Number> number(const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

constexpr const char* columns[] = {
    "step", "seconds", "loss", "learning_rate", "orthogonality_error", "evaluation_loss"};

/// Where in a row these columns are, and then those of the metrics; beyond its end for a metric that is not
/// there.
std::vector<std::size_t> places_in(const fs::path& file, const std::vector<std::string>& header,
                                   const std::vector<Metric>& metrics) {
  std::vector<std::size_t> places;
  const auto place_of = [&](const std::string& column) {
    return static_cast<std::size_t>(std::ranges::find(header, column) - header.begin());
  };
  for (const char* column : columns) {
    places.push_back(place_of(column));
    if (places.back() == header.size()) {
      throw FileError(fmt::format("'{}' is no metrics.csv of orthornn train: it has no column '{}'",
                                  file.string(), column));
    }
  }
  for (const Metric& metric : metrics) places.push_back(place_of(metric.name));
  return places;
}

/// Throws ValueError that names the error in the row.
MetricsRow row_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& places) {
  const auto refusal = [&](std::size_t column, const char* expected) {
    return ValueError(fmt::format("'{}' is no {}", cells[places[column]].substr(0, 20), expected));
  };
  const auto possible = [&](std::size_t column) -> std::optional<double> {
    const std::string cell = places[column] < cells.size() ? cells[places[column]] : "";
    if (cell.empty()) return std::nullopt;
    const std::optional<double> value = number<double>(cell);
    if (!value) throw refusal(column, "number");
    return std::isfinite(*value) ? value : std::nullopt;
  };
  const std::optional<std::int64_t> step = number<std::int64_t>(cells[places[0]]);
  if (!step) throw refusal(0, "whole number");
  const std::optional<double> seconds = possible(1);
  if (!seconds || *seconds < 0) throw refusal(1, "time");
  MetricsRow row{*step, *seconds, possible(2), possible(3), possible(4), possible(5)};
  for (std::size_t i = std::size(columns); i < places.size(); ++i) row.metrics.push_back(possible(i));
  return row;
}

}  // namespace

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

Evaluation TrainingRun::evaluation(const MetricsRow& row) const {
  Evaluation evaluation{.loss = *row.evaluation_loss};
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (i < row.metrics.size() && row.metrics[i]) evaluation.metrics.push_back({metrics[i], *row.metrics[i]});
  }
  return evaluation;
}

void read_metrics(TrainingRun& run, const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw FileError(fmt::format("cannot read '{}': {}", file.string(), std::strerror(errno)));
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> header = cells_of(line);
  const std::vector<std::size_t> places = places_in(file, header, run.metrics);
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
      const MetricsRow row = row_of(cells, places);
      const std::int64_t last = run.rows.empty() ? 0 : run.rows.back().step;
      if (row.step <= last) throw ValueError(fmt::format("step {} does not come after {}", row.step, last));
      run.rows.push_back(row);
    } catch (const ValueError& error) {
      if (left_out++ == 0) why = fmt::format("line {}: {}", line_number, error.what());
    }
  }
  if (left_out > 0) {
    run.notes.push_back(
        fmt::format("{} row{} of metrics.csv left out, {}", left_out, left_out == 1 ? "" : "s", why));
  }
  if (run.rows.empty()) run.notes.push_back("no step is logged yet");
}

}  // namespace orthornn::program
