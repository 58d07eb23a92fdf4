#include "commands/bench_translate_runs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "commands/bench_translate_table.hpp"
#include "commands/config_file.hpp"
#include "commands/evaluation.hpp"
#include "commands/run_files.hpp"
#include "commands/training.hpp"
#include "core/checked_json.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "pages/reflection_count.hpp"
#include "pages/stop_on_signal.hpp"
#include "pages/training_run.hpp"
#include "pages/whole_file.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Whether there is a training in the folder. Throws FileError for one of other settings, and for a folder
/// that holds something else.
bool holds_training(const fs::path& folder, TableRunSettings& run) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored) || (fs::is_directory(folder, ignored) && fs::is_empty(folder, ignored)))
    return false;
  const fs::path config = folder / "config.toml";
  if (!fs::exists(config, ignored)) {
    throw FileError(fmt::format("'{}' is no run directory, as it has no config.toml; choose another --out",
                                folder.string()));
  }
  check_regular(config);
  const Json present = settings_in(config.string());
  const Json wanted = settings_of(run.settings.to_toml(run.command));
  // The model files know their data by a checksum. The others change no result.
  const std::vector<std::string> left_open = {"data", "threads", "log-every", "save-every"};
  Json all = present;
  all.update(wanted);
  for (const auto& entry : all.items()) {
    const std::string& key = entry.key();
    const Json found = present.value(key, Json()), expected = wanted.value(key, Json());
    if (found == expected || std::ranges::count(left_open, key) > 0) continue;
    const auto text = [](const Json& value) { return value.is_null() ? "none" : json_text(value, -1); };
    throw FileError(
        fmt::format("'{}' was trained with {} {}, and this table has {}; give the same settings or "
                    "another --out",
                    folder.string(), key, text(found), text(expected)));
  }
  return true;
}

/// Steps of the training that model.h5 of the folder holds; 0 without one.
std::int64_t steps_in(const fs::path& folder) {
  const SavedTraining saved(folder);
  return saved.has_last() ? read_model_info(saved.last).steps.value_or(0) : 0;
}

/// What an earlier table left in result.json of a run that has been trained to its end; nothing if it is of
/// another search or another model, or lacks a number.
std::optional<Json> earlier_result(const fs::path& folder, const BeamSearchOptions& search) {
  try {
    const Json found = parse_json(read_whole_file(folder / result_file));
    // A file may hold anything: only what a row takes from it.
    Json result;
    for (const char* key : {"parameters", "epochs", "seconds", "seconds_per_epoch",
                            "seconds_per_epoch_with_validation", "went_on", "test"}) {
      if (found.contains(key)) result[key] = found[key];
    }
    const Json& test = object_member(result, "test");
    if (integer_member(test, "beam") != search.beam ||
        real_member(test, "length_penalty") != search.length_penalty ||
        integer_member(test, "steps") != read_model_info(SavedTraining(folder).best_or_last()).steps)
      return std::nullopt;
    for (const TableColumn& column : table_columns) {
      const bool is_time = std::string_view(column.place).starts_with("/seconds");
      if (!column.value_in(result) && !(is_time && result.contains("went_on"))) return std::nullopt;
    }
    return result;
  } catch (const Error&) {
    return std::nullopt;  // it is made again
  }
}

/// Adds the time of the training, by its metrics.csv.
void add_times(Json& row, const fs::path& folder, std::int64_t steps_per_epoch) {
  TrainingRun run;
  read_metrics(run, folder / "metrics.csv");
  if (run.rows.empty()) return;
  const MetricsRow& last = run.rows.back();
  double seconds = 0;
  std::int64_t steps = 0;
  for (std::size_t i = 1; i < run.rows.size(); ++i) {
    // A row with a validation comes after it and before the save.
    if (run.rows[i - 1].evaluation_loss || run.rows[i].evaluation_loss) continue;
    seconds += run.rows[i].seconds - run.rows[i - 1].seconds;
    steps += run.rows[i].step - run.rows[i - 1].step;
  }
  const bool apart = steps > 0;
  row["seconds"] = last.seconds;
  row["seconds_per_epoch"] = (apart ? seconds : last.seconds) /
                             static_cast<double>(apart ? steps : last.step) *
                             static_cast<double>(steps_per_epoch);
  row["seconds_per_epoch_with_validation"] = !apart;
}

/// Trains to the last step, from where `settings.resume` says. Throws FileError for files that could not be
/// written.
void train_rest(TableRunSettings& own, const fs::path& folder, const std::string& label) {
  TrainSettings& settings = own.settings;
  const std::string lost = with_unwritten_files([&](UnwrittenFiles& unwritten) {
    const Execution execution = settings.machine.apply(settings.source.batch, own.task->length());
    Training training(own.command, settings, *own.task, execution, unwritten);
    training.run({.stream = stderr, .label = label, .passing = true});
    return unwritten.text(folder);
  });
  if (!lost.empty()) throw FileError(lost);
}

/// Trains what is left to train, and evaluates.
void add_result(Json& row, const TableSettings& table, const TableRun& run, const fs::path& folder,
                const std::string& label) {
  TableRunSettings own(table, run, folder);
  TrainSettings& settings = own.settings;
  row["settings"] = settings_of(settings.to_toml(own.command));
  settings.resume = holds_training(folder, own);
  const bool trained = settings.resume && steps_in(folder) >= settings.steps();
  if (trained) {
    if (const std::optional<Json> earlier = earlier_result(folder, table.search)) {
      row.update(*earlier);
      return;
    }
    own.task->load();
  } else {
    train_rest(own, folder, label);
  }
  const fs::path model = SavedTraining(folder).best_or_last();
  const ModelFileInfo info = read_model_info(model);
  const std::int64_t steps_per_epoch = own.task->batches_per_epoch().value();
  Json result = {
      {"parameters",
       std::visit([](const auto& options) { return parameter_layout<float>(options).count(); }, info.model)},
      {"epochs", static_cast<double>(settings.steps()) / static_cast<double>(steps_per_epoch)}};
  // metrics.csv does not have the time between its last row and an interruption.
  if (settings.resume && !trained) {
    result["went_on"] = true;
  } else {
    add_times(result, folder, steps_per_epoch);
  }
  own.task.reset();  // the evaluation reads its data itself
  // As `orthornn eval` of this file.
  const Execution execution = settings.machine.apply();
  const EvaluationSource source{.model = model.string(), .data = settings.data, .search = table.search};
  result["test"] = json_of(evaluate_file(source, execution), source, execution);
  result["test"].erase("model");
  write_file_atomically(folder / result_file, json_text(result) + "\n");
  row.update(result);
}

}  // namespace

TableRunSettings::TableRunSettings(const TableSettings& table, const TableRun& run, const fs::path& folder) {
  settings.add_to(command);
  std::vector<std::string> words = {TranslationOptions::name, "--cell=" + run.cell,
                                    fmt::format("--seed={}", run.seed), "--out=" + folder.string(),
                                    "--until-solved=false"};  // a configuration file may have it
  if (run.reflections > 0) words.push_back(fmt::format("--reflections={}", run.reflections));
  for (const CLI::Option* given : table.of_training) {
    if (given->count() == 0 || !table.training.takes(*given, run.cell)) continue;
    words.push_back(fmt::format("{}={}", given->get_name(), given->results().front()));
  }
  std::ranges::reverse(words);  // as CLI11 takes them
  command.parse(std::move(words));
  task = as_usage([&] { return settings.complete(command, /*may_exist=*/true); });
}

void check_table_options(const TableSettings& table) {
  for (const CLI::Option* option : table.of_training) {
    if (option->count() == 0) continue;
    if (std::ranges::any_of(table.cells,
                            [&](const auto& cell) { return table.training.takes(*option, cell); }))
      continue;
    throw UsageError(fmt::format("{} was given, and --cells {} has none that takes it", option->get_name(),
                                 fmt::join(table.cells, ",")));
  }
}

std::vector<TableRun> table_runs(const TableSettings& table, const TableRunSettings& any) {
  const Index hidden = any.settings.hidden_size();
  std::vector<Index> counts;
  for (const std::string& text : table.reflections) {
    const std::optional<Index> count = ReflectionCount::parse(text)->at(hidden);
    if (!count) throw UsageError(fmt::format("--reflections {} is more than --hidden {}", text, hidden));
    if (std::ranges::count(counts, *count) == 0) counts.push_back(*count);
  }
  std::vector<TableRun> runs;
  const auto is_new = [&](const TableRun& run) {
    return std::ranges::none_of(runs, [&](const TableRun& other) { return other.name() == run.name(); });
  };
  bool any_reflects = false;
  for (const std::string& cell : table.cells) {
    const bool reflects = any.settings.takes(*any.command.get_option("--reflections"), cell);
    any_reflects |= reflects;
    for (const Index count : reflects ? counts : std::vector<Index>{0}) {
      for (const std::uint64_t seed : table.seeds) {
        if (const TableRun run{cell, count, seed}; is_new(run)) runs.push_back(run);
      }
    }
  }
  if (!any_reflects && table.of_reflections->count() > 0) {
    throw UsageError(fmt::format("--reflections was given, and --cells {} has none with reflections",
                                 fmt::join(table.cells, ",")));
  }
  return runs;
}

void check_run_folders(const TableSettings& table, const std::vector<TableRun>& runs) {
  const fs::path folder = table.out;
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored))
    throw FileError(fmt::format("--out '{}' is a file; expected a folder, or none yet", folder.string()));
  for (const char* name : {"config.toml", "model.h5"}) {
    if (!fs::exists(folder / name, ignored)) continue;
    throw FileError(fmt::format(
        "--out '{}' is the run directory of one training, as it has {}; choose another folder, which "
        "gets a run directory for each training",
        folder.string(), name));
  }
  for (const TableRun& run : runs) {
    if (!fs::exists(folder / run.name(), ignored)) continue;
    check_run_files(folder / run.name());
    TableRunSettings own(table, run, folder / run.name());
    holds_training(folder / run.name(), own);
  }
}

Json table_row(const TableSettings& table, const TableRun& run, const fs::path& folder,
               const std::string& label) {
  Json row = {{"run", run.name()},
              {"cell", run.cell},
              {"reflections", run.reflections > 0 ? Json(run.reflections) : Json()},
              {"seed", run.seed},
              {"state", "done"}};
  const auto failed = [&](const std::string& why) {
    row["state"] = "failed";
    row["error"] = why;
  };
  try {
    add_result(row, table, run, folder, label);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    failed(error.what());
  } catch (const std::bad_alloc&) {
    failed("out of memory");
  }
  return row;
}

}  // namespace orthornn::program
