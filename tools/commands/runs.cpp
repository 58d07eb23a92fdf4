#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>

#include "bench/table.hpp"
#include "commands/program.hpp"
#include "commands/run_list.hpp"
#include "support/csv_cell.hpp"
#include "support/files.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

struct RunsSettings {
  std::string folder = "runs";
  bool json = false;
  bool csv = false;
};

/// What the files of a run do not tell is left out.
Json json_of(const ListedRun& run) {
  Json json = {{"name", run.name}, {"folder", run.folder.string()}, {"state", run.state}};
  const auto add = [&](const char* key, const auto& value) {
    if (value) json[key] = *value;
  };
  if (!run.task.empty()) json["task"] = run.task;
  if (!run.cell.empty()) json["cell"] = run.cell;
  add("parameters", run.parameters);
  add("steps", run.steps);
  add("wanted_steps", run.wanted_steps);
  add("best_validation_loss", run.best_validation_loss);
  add("test_loss", run.test_loss);
  if (run.test_metric)
    json["test_metric"] = {{"name", run.test_metric->metric.name}, {"value", run.test_metric->value}};
  json["notes"] = run.notes;
  return json;
}

void print_table(const std::vector<ListedRun>& runs) {
  const auto width = [&](const std::string ListedRun::*text, std::size_t least) {
    for (const ListedRun& run : runs) least = std::max(least, printable(run.*text).size());
    return static_cast<int>(least);
  };
  const std::array<TableColumn, 12> columns = {TableColumn{"name", "/name", width(&ListedRun::name, 4)},
                                               TableColumn{"task", "/task", width(&ListedRun::task, 4)},
                                               TableColumn{"cell", "/cell", width(&ListedRun::cell, 4)},
                                               TableColumn{"parameters", "/parameters", 10, "d"},
                                               TableColumn{"state", "/state", 11},
                                               TableColumn{"steps", "/steps", 8, "d"},
                                               TableColumn{"of", "/wanted_steps", 8, "d"},
                                               TableColumn{"validation", "/best_validation_loss", 10, ".4g"},
                                               TableColumn{"test", "/test_loss", 10, ".4g"},
                                               TableColumn{"metric", "/test_metric/name", 8},
                                               TableColumn{"", "/test_metric/value", 8, ".4g"},
                                               TableColumn{"", "/note", 0}};
  print_titles(columns);
  for (const ListedRun& run : runs) {
    Json row = json_of(run);
    row["note"] = fmt::format("{}", fmt::join(run.notes, "; "));
    print_row(columns, row);
  }
}

/// A value as a cell: empty for one that is not there.
std::string json_cell(const Json& row, const char* place) {
  const Json::json_pointer pointer(place);
  if (!row.contains(pointer)) return "";
  const Json& value = row.at(pointer);
  return value.is_string() ? csv_cell(printable(value.get<std::string>())) : value.dump();
}

void print_csv(const std::vector<ListedRun>& runs) {
  constexpr std::array columns = {std::pair{"name", "/name"},
                                  std::pair{"folder", "/folder"},
                                  std::pair{"task", "/task"},
                                  std::pair{"cell", "/cell"},
                                  std::pair{"parameters", "/parameters"},
                                  std::pair{"state", "/state"},
                                  std::pair{"steps", "/steps"},
                                  std::pair{"wanted_steps", "/wanted_steps"},
                                  std::pair{"best_validation_loss", "/best_validation_loss"},
                                  std::pair{"test_loss", "/test_loss"},
                                  std::pair{"test_metric", "/test_metric/name"},
                                  std::pair{"test_metric_value", "/test_metric/value"},
                                  std::pair{"notes", "/note"}};
  const auto print_line = [&](const auto& cell_of) {
    std::vector<std::string> cells;
    for (const auto& column : columns) cells.push_back(cell_of(column));
    fmt::print("{}\n", fmt::join(cells, ","));
  };
  print_line([](const auto& column) { return std::string(column.first); });
  for (const ListedRun& run : runs) {
    Json row = json_of(run);
    row["note"] = fmt::format("{}", fmt::join(run.notes, "; "));
    print_line([&](const auto& column) { return json_cell(row, column.second); });
  }
}

int list_runs(const RunsSettings& settings) {
  std::error_code ignored;
  if (!fs::is_directory(settings.folder, ignored)) {
    throw FileError(
        fmt::format("there is no folder '{}'; expected one that holds run directories of "
                    "orthornn train",
                    settings.folder));
  }
  const std::vector<ListedRun> runs = runs_in(settings.folder);
  if (settings.json) {
    Json list = Json::array();
    for (const ListedRun& run : runs) list.push_back(json_of(run));
    fmt::print("{}\n", json_text(list));
  } else if (settings.csv) {
    print_csv(runs);
  } else if (runs.empty()) {
    fmt::print("no run directories in '{}'\n", printable(settings.folder));
  } else {
    print_table(runs);
  }
  return success;
}

}  // namespace

void add_runs(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("runs", "A table of training runs");
  const auto settings = std::make_shared<RunsSettings>();
  command->add_option("folder", settings->folder, "Folder of run directories, or one of them");
  CLI::Option* json = command->add_flag("--json", settings->json, "A JSON array instead of a table");
  command->add_flag("--csv", settings->csv, "Rows of CSV instead of a table")->excludes(json);
  command->callback([&chosen, settings] { chosen = [settings] { return list_runs(*settings); }; });
}

}  // namespace orthornn::program
