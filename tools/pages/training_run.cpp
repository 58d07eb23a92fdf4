#include "pages/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
    "step",     "seconds",          "loss", "learning_rate", "orthogonality_error", "evaluation_loss",
    "accuracy", "sequence_accuracy"};
/// The last of them is that of some tasks alone.
constexpr std::size_t needed_columns = std::size(columns) - 1;
/// Where in a row these columns are; beyond its end for one that is not there.
using Places = std::array<std::size_t, std::size(columns)>;

Places places_in(const fs::path& file, const std::vector<std::string>& header) {
  Places places;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto found = std::find(header.begin(), header.end(), columns[i]);
    if (found == header.end() && i < needed_columns) {
      throw FileError(fmt::format("'{}' is no metrics.csv of orthornn train: it has no column '{}'",
                                  file.string(), columns[i]));
    }
    places[i] = static_cast<std::size_t>(found - header.begin());
  }
  return places;
}

/// Throws ValueError that names the error in the row.
MetricsRow row_of(const std::vector<std::string>& cells, const Places& places) {
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
  return {*step, *seconds, possible(2), possible(3), possible(4), possible(5), possible(6), possible(7)};
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

void read_metrics(TrainingRun& run, const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw FileError(fmt::format("cannot read '{}': {}", file.string(), std::strerror(errno)));
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> header = cells_of(line);
  const Places places = places_in(file, header);
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
