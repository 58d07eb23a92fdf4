#include "pages/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "commands/config_file.hpp"
#include "commands/train_settings.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

/// "a,,b" gives a, nothing and b.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

/// Reads "12.5", "nan" and the like, or whole numbers, to the end; nullopt for any other text.
template <class Number>
std::optional<Number> number(const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Positions of the columns that the page shows.
class MetricsColumns {
 public:
  MetricsColumns(const fs::path& file, const std::vector<std::string>& header) : count_(header.size()) {
    const std::pair<const char*, std::size_t*> known[] = {{"step", &step_},
                                                          {"seconds", &seconds_},
                                                          {"loss", &loss_},
                                                          {"learning_rate", &learning_rate_},
                                                          {"orthogonality_error", &orthogonality_error_},
                                                          {"evaluation_loss", &evaluation_loss_},
                                                          {"accuracy", &accuracy_}};
    for (const auto& [name, column] : known) {
      const auto found = std::find(header.begin(), header.end(), name);
      if (found == header.end()) {
        throw FileError(fmt::format("'{}' is no metrics.csv of orthornn train: it has no column '{}'",
                                    file.string(), name));
      }
      *column = static_cast<std::size_t>(found - header.begin());
    }
  }

  std::size_t count() const { return count_; }

  /// Throws ValueError that names the error in the row.
  MetricsRow row(const std::vector<std::string>& cells) const {
    if (cells.size() != count_)
      throw ValueError(fmt::format("it has {} cells, expected {}", cells.size(), count_));
    const auto refusal = [&](std::size_t column, const char* expected) {
      return ValueError(fmt::format("'{}' is no {}", cells[column].substr(0, 20), expected));
    };
    const auto possible = [&](std::size_t column) -> std::optional<double> {
      if (cells[column].empty()) return std::nullopt;
      const std::optional<double> value = number<double>(cells[column]);
      if (!value) throw refusal(column, "number");
      return std::isfinite(*value) ? value : std::nullopt;
    };
    const std::optional<std::int64_t> step = number<std::int64_t>(cells[step_]);
    if (!step) throw refusal(step_, "whole number");
    const std::optional<double> seconds = possible(seconds_);
    if (!seconds || *seconds < 0) throw refusal(seconds_, "time");
    return {.step = *step,
            .seconds = *seconds,
            .loss = possible(loss_),
            .learning_rate = possible(learning_rate_),
            .orthogonality_error = possible(orthogonality_error_),
            .evaluation_loss = possible(evaluation_loss_),
            .accuracy = possible(accuracy_)};
  }

 private:
  std::size_t count_;
  std::size_t step_, seconds_, loss_, learning_rate_, orthogonality_error_, evaluation_loss_, accuracy_;
};

/// "copying, delay 200", "mnist, permuted": its sizes, and what is true of it.
std::string task_text(const TaskOptions& options) {
  return std::visit(
      [](const auto& own) {
        std::string text = own.name;
        own.fields([&](const char* key, auto member, const Domain& domain, const char*) {
          const auto& value = own.*member;
          using Value = std::decay_t<decltype(value)>;
          if constexpr (std::same_as<Value, bool>) text += value ? fmt::format(", {}", key) : "";
          if constexpr (std::same_as<Value, Index>)
            text += domain.low < domain.high ? fmt::format(", {} {}", key, value) : "";
        });
        return text;
      },
      options);
}

}  // namespace

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
  check_regular(file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw FileError(fmt::format("cannot read '{}': {}", file.string(), std::strerror(errno)));
  std::string line;
  std::getline(stream, line);
  const MetricsColumns columns(file, cells_of(line));
  int left_out = 0;
  std::string why;
  for (int line_number = 2; std::getline(stream, line); ++line_number) {
    if (stream.eof()) {
      run.notes.push_back("the last row of metrics.csv is half written and left out");
      break;
    }
    try {
      const MetricsRow row = columns.row(cells_of(line));
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

TrainingRun read_training_run(const fs::path& folder) {
  std::error_code status;
  if (!fs::is_directory(folder, status)) {
    throw FileError(
        fmt::format("'{}' is no folder and no file; expected a run directory of orthornn train, or "
                    "compare.json of orthornn bench compare",
                    folder.string()));
  }
  for (const char* name : {"config.toml", "metrics.csv"}) {
    if (!fs::exists(folder / name, status)) {
      throw FileError(
          fmt::format("'{}' is no run directory: it has no {}; give one that orthornn train wrote",
                      folder.string(), name));
    }
  }
  TrainSettings settings;
  CLI::App command;
  settings.add_to(command);
  check_regular(folder / "config.toml");
  read_config(command, (folder / "config.toml").string());
  if (settings.task.name.empty()) {
    throw FileError(fmt::format("'{}' names no task; give a run directory that orthornn train wrote",
                                (folder / "config.toml").string()));
  }
  const std::unique_ptr<Task> task = settings.make_task();

  TrainingRun run;
  run.folder = folder;
  run.task = task_text(settings.task.chosen());
  run.cell = settings.transition.name;
  run.hidden = settings.cell.hidden_size;
  const RecurrentOptions cell = settings.recurrent();
  if (const Index* reflections = reflections_of(cell))
    run.reflections = *reflections > 0 ? *reflections : run.hidden;
  run.steps = settings.steps();
  run.baseline = task->baseline_loss();
  read_metrics(run, folder / "metrics.csv");
  if (const MetricsRow* last = run.last_evaluation())
    run.solved = task->solved({.loss = *last->evaluation_loss, .accuracy = last->accuracy});
  if (fs::exists(folder / "model.h5", status))
    run.parameters = parameter_layout<float>(read_model_info(folder / "model.h5").model).count();
  return run;
}

}  // namespace orthornn::program
