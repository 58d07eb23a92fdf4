// The comparison of cells on translation: one training each, and what it is worth on the test data.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands/config_file.hpp"
#include "commands/evaluation.hpp"
#include "commands/machine.hpp"
#include "commands/output_file.hpp"
#include "commands/run_files.hpp"
#include "commands/standard_streams.hpp"
#include "commands/training.hpp"
#include "core/checked_json.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "pages/reflection_count.hpp"
#include "pages/scratch_folder.hpp"
#include "pages/stop_on_signal.hpp"
#include "pages/training_run.hpp"
#include "pages/whole_file.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

struct TableSettings {
  /// The options of `train`, as the command line has them. Each run has settings of its own.
  TrainSettings training;
  std::vector<const CLI::Option*> of_training = {};
  std::vector<std::string> cells = {"cwy", "lstm", "gru", "free", "cayley", "expm"};
  std::vector<std::string> reflections = {"N", "N/2", "N/4", "N/8"};
  const CLI::Option* of_reflections = nullptr;
  std::vector<std::uint64_t> seeds = {1};
  BeamSearchOptions search;
  std::string out;
  std::string json;
  bool overwrite = false;
};

/// One training of the table.
struct Run {
  std::string cell;
  /// 0 for cells without reflections.
  Index reflections;
  std::uint64_t seed;

  std::string name() const {
    return fmt::format("{}{}-seed{}", cell, reflections > 0 ? fmt::format("-{}", reflections) : "", seed);
  }
};

/// The settings of a training that the table's command line makes: those of `orthornn train translate` with
/// the same options. What only other cells have is left out.
struct RunSettings {
  RunSettings(const TableSettings& table, const Run& run, const fs::path& folder) {
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

  CLI::App command;
  TrainSettings settings;
  std::unique_ptr<Task> task;
};

/// Throws UsageError for an option that no cell of the table has.
void check_options(const TableSettings& table) {
  for (const CLI::Option* option : table.of_training) {
    if (option->count() == 0) continue;
    if (std::ranges::any_of(table.cells,
                            [&](const auto& cell) { return table.training.takes(*option, cell); }))
      continue;
    throw UsageError(fmt::format("{} was given, and --cells {} has none that takes it", option->get_name(),
                                 fmt::join(table.cells, ",")));
  }
}

/// Cells in their order, each with its numbers of reflections and with these all seeds; nothing twice.
std::vector<Run> runs_of(const TableSettings& table, const RunSettings& any) {
  const Index hidden = any.settings.hidden_size();
  std::vector<Index> counts;
  for (const std::string& text : table.reflections) {
    const std::optional<Index> count = ReflectionCount::parse(text)->at(hidden);
    if (!count) throw UsageError(fmt::format("--reflections {} is more than --hidden {}", text, hidden));
    if (std::ranges::count(counts, *count) == 0) counts.push_back(*count);
  }
  std::vector<Run> runs;
  const auto is_new = [&](const Run& run) {
    return std::ranges::none_of(runs, [&](const Run& other) { return other.name() == run.name(); });
  };
  bool any_reflects = false;
  for (const std::string& cell : table.cells) {
    const bool reflects = any.settings.takes(*any.command.get_option("--reflections"), cell);
    any_reflects |= reflects;
    for (const Index count : reflects ? counts : std::vector<Index>{0}) {
      for (const std::uint64_t seed : table.seeds) {
        if (const Run run{cell, count, seed}; is_new(run)) runs.push_back(run);
      }
    }
  }
  if (!any_reflects && table.of_reflections->count() > 0) {
    throw UsageError(fmt::format("--reflections was given, and --cells {} has none with reflections",
                                 fmt::join(table.cells, ",")));
  }
  return runs;
}

/// Whether there is a training in the folder. Throws FileError for one of other settings, and for a folder
/// that holds something else.
bool holds_training(const fs::path& folder, RunSettings& run) {
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

/// Before the data are read: a folder that cannot be made.
void check_out(const fs::path& folder) {
  std::error_code ignored;
  fs::path place = fs::absolute(folder, ignored);
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  if (access(place.c_str(), W_OK) == 0) return;
  throw FileError(fmt::format("cannot write in '{}': {}; choose another --out", place.string(),
                              std::generic_category().message(errno)));
}

/// Before hours of training: folders that cannot be used.
void check_folders(const TableSettings& table, const std::vector<Run>& runs) {
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
  for (const Run& run : runs) {
    if (!fs::exists(folder / run.name(), ignored)) continue;
    check_run_files(folder / run.name());
    RunSettings own(table, run, folder / run.name());
    holds_training(folder / run.name(), own);
  }
}

/// Steps of the training that model.h5 of the folder holds; 0 without one.
std::int64_t steps_in(const fs::path& folder) {
  const SavedTraining saved(folder);
  return saved.has_last() ? read_model_info(saved.last).steps.value_or(0) : 0;
}

/// A column of numbers.
struct Column {
  const char* title;
  /// Where a row has it.
  const char* place;
  int digits;
};
constexpr Column columns[] = {{"parameters", "/parameters", 0},
                              {"cross-entropy", "/test/cross_entropy", 4},
                              {"perplexity", "/test/perplexity", 3},
                              {"padded", "/test/perplexity_with_padding", 3},
                              {"BLEU", "/test/bleu/score", 2},
                              {"chrF2", "/test/chrf/score", 2},
                              {"seconds", "/seconds", 1},
                              {"s/epoch", "/seconds_per_epoch", 2}};

std::optional<double> number_in(const Json& row, const Column& column) {
  const Json::json_pointer place(column.place);
  if (!row.contains(place) || !row.at(place).is_number()) return std::nullopt;
  return row.at(place).get<double>();
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
    for (const Column& column : columns) {
      const bool is_time = std::string_view(column.place).starts_with("/seconds");
      if (!number_in(result, column) && !(is_time && result.contains("went_on"))) return std::nullopt;
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

/// Trains what is left to train, and evaluates.
void add_result(Json& row, const TableSettings& table, const Run& run, const fs::path& folder,
                const std::string& label) {
  RunSettings own(table, run, folder);
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
    const std::string lost = with_unwritten_files([&](UnwrittenFiles& unwritten) {
      const Execution execution = settings.machine.apply(settings.source.batch, own.task->length());
      Training training(own.command, settings, *own.task, execution, unwritten);
      training.run({.stream = stderr, .label = label, .passing = true});
      return unwritten.text(folder);
    });
    if (!lost.empty()) throw FileError(lost);
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

Json row_of(const TableSettings& table, const Run& run, const fs::path& folder, const std::string& label) {
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

/// The texts of a row's numbers for `print_line`: as wide as a column where they can be, empty without one.
auto numbers_of(const Json& row) {
  return [&row](const Column& column) -> std::string {
    const std::optional<double> value = number_in(row, column);
    if (!value) return "";
    return std::abs(*value) < 1e9 ? fmt::format("{:.{}f}", *value, column.digits)
                                  : fmt::format("{:.3e}", *value);
  };
}

void print_line(const std::string& cell, const std::string& reflections, const std::string& seed,
                const auto& text_of) {
  fmt::print("{:<12} {:>6} {:>6}", cell, reflections, seed);
  for (const Column& column : columns) {
    const int width = std::max<int>(10, static_cast<int>(std::string_view(column.title).size()));
    fmt::print(" {:>{}}", text_of(column), width);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

std::string reflections_text(const Json& row) {
  return row["reflections"].is_null() ? "" : fmt::format("{}", row["reflections"].get<Index>());
}

void print_row(const Json& row) {
  const std::string cell = row["cell"], reflections = reflections_text(row);
  const std::string seed = fmt::format("{}", row["seed"].get<std::uint64_t>());
  if (row["state"] != "done") {
    fmt::print("{:<12} {:>6} {:>6} {}\n", cell, reflections, seed,
               printable(row["error"].get<std::string>()));
    std::fflush(stdout);
    return;
  }
  print_line(cell, reflections, seed, numbers_of(row));
}

/// Mean and standard deviation over the seeds of one cell, those that are done.
Json summary_of(const std::vector<const Json*>& rows) {
  Json summary = {{"cell", rows[0]->at("cell")},
                  {"reflections", rows[0]->at("reflections")},
                  {"seeds", rows.size()},
                  {"mean", Json::object()},
                  {"deviation", Json::object()}};
  for (const Column& column : columns) {
    std::vector<double> values;
    for (const Json* row : rows) {
      if (const std::optional<double> value = number_in(*row, column)) values.push_back(*value);
    }
    if (values.size() < 2) continue;
    const double count = static_cast<double>(values.size());
    double mean = 0, square = 0;
    for (const double value : values) mean += value / count;
    for (const double value : values) square += (value - mean) * (value - mean) / (count - 1);
    const Json::json_pointer place(column.place);
    summary["mean"][place] = mean;
    summary["deviation"][place] = std::sqrt(square);
  }
  return summary;
}

void print_summary(const Json& summary) {
  for (const char* key : {"mean", "deviation"}) {
    print_line(summary["cell"], reflections_text(summary), key == std::string("mean") ? "mean" : "sd",
               numbers_of(summary[key]));
  }
}

void print_head(const TableSettings& table, const RunSettings& any, std::size_t count) {
  const TrainSettings& settings = any.settings;
  const auto& pairs = dynamic_cast<const TranslationTask&>(*any.task);
  fmt::print(
      "translate {}: {} trainings of {} steps,{} {} batches an epoch, hidden size {}, batch {}, on {}\n",
      name_of(std::get<TranslationOptions>(settings.task.chosen()).direction), count, settings.steps(),
      settings.encoder.empty() ? "" : fmt::format(" encoder {},", settings.encoder),
      pairs.batches_per_epoch().value(), settings.hidden_size(), settings.source.batch,
      machine_text(settings.machine.apply(settings.source.batch)));
  fmt::print(
      "test data: {} sentences, by the model of the smallest validation loss; beam {}; padded: the "
      "perplexity\n"
      "if padding is counted as tutorials do; seconds: of the training, with validations and saves; sd: "
      "standard\n"
      "deviation over the seeds\n\n",
      pairs.held_out_pairs(HeldOut::test).size(), table.search.beam);
  print_line("cell", "L", "seed", [](const Column& column) { return std::string(column.title); });
}

int bench_translate(TableSettings& table) {
  // It has a say in which options there may be.
  if (TrainSettings& training = table.training; training.encoder.empty() && !training.config.empty())
    training.encoder = setting_in(training.config, "encoder");
  check_options(table);
  if (!table.json.empty()) check_output(table.json, OutputKind::results, table.overwrite);
  if (!table.out.empty()) check_out(table.out);
  if (!table.out.empty() || !table.json.empty()) go_on_without_output();
  std::vector<Run> runs;
  Json result = {{"benchmark", "translate"}, {"library_version", version()}};
  {
    // What all runs have in common, in a folder where no run is.
    const ScratchFolder nothing("the settings cannot be checked");
    RunSettings any(table, {table.cells.front(), 0, table.seeds.front()}, nothing.path() / "run");
    runs = runs_of(table, any);
    if (!table.out.empty()) check_folders(table, runs);
    as_usage([&] { any.task->load(); });
    if (const auto& pairs = dynamic_cast<const TranslationTask&>(*any.task); !pairs.left_out().empty())
      note(pairs.left_out());
    print_head(table, any, runs.size());
    result["machine"] = machine_fields(any.settings.machine.apply());
  }
  result["rows"] = Json::array();
  result["summary"] = Json::array();

  const StopOnSignal stop_on_signal;
  std::optional<ScratchFolder> scratch;
  if (table.out.empty()) scratch.emplace("no training can be kept");
  const fs::path folder = scratch ? scratch->path() : fs::path(table.out);
  std::size_t failed = 0;
  UnwrittenFiles unwritten;
  try {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      leave_if_stop_requested();
      const Run& run = runs[i];
      const Json& row = result["rows"].emplace_back(
          row_of(table, run, folder / run.name(), fmt::format("{}/{} {}  ", i + 1, runs.size(), run.name())));
      print_row(row);
      if (scratch) {
        std::error_code ignored;
        fs::remove_all(folder / run.name(), ignored);  // some runs of a table would fill a disk
      }
      failed += row["state"] == "failed";
      const bool last_seed =
          i + 1 == runs.size() || runs[i + 1].cell != run.cell || runs[i + 1].reflections != run.reflections;
      std::vector<const Json*> of_cell;
      for (const Json& other : result["rows"]) {
        if (other["state"] == "done" && other["cell"] == row["cell"] &&
            other["reflections"] == row["reflections"])
          of_cell.push_back(&other);
      }
      if (last_seed && of_cell.size() > 1) print_summary(result["summary"].emplace_back(summary_of(of_cell)));
      // Now, as the rest may be interrupted.
      if (!table.json.empty()) {
        unwritten.write(table.json, [&file = table.json, text = json_text(result) + "\n"] {
          write_file_atomically(file, text, SymbolicLinks::replaced);
        });
      }
    }
  } catch (const Interrupted&) {
    unwritten.try_again();
    return fail(interrupted,
                fmt::format("interrupted after {} of {} rows; {}{}", result["rows"].size(), runs.size(),
                            table.out.empty() ? "without --out no training is kept"
                                              : "the same command goes on from there",
                            unwritten.text().empty() ? "" : "; " + unwritten.text()));
  }
  unwritten.try_again();
  int code = success;
  if (const std::string lost = unwritten.text(); !lost.empty()) code = fail(failure, lost);
  if (failed > 0) code = fail(failure, fmt::format("{} of {} trainings failed", failed, runs.size()));
  return code;
}

}  // namespace

void add_bench_translate(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand(
      "translate", "Cells compared on translation: one training each, with perplexity, BLEU, chrF and time");
  const auto table = std::make_shared<TableSettings>();
  table->training.add_to(*command);
  table->training.remove_other_tasks(*command, TranslationOptions::name);
  table->training.remove(*command, {"task", "--cell", "--reflections", "--seed", "--until-solved", "--out",
                                    "--resume", "--verbose"});
  table->of_training = std::as_const(*command).get_options(
      [](const CLI::Option* option) { return option->get_name() != "--help"; });
  const char* g = "Table";
  command
      ->add_option("--cells", table->cells,
                   fmt::format("Cells in the order of the rows, with commas between: {}",
                               fmt::join(cell_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(cell_names()))
      ->group(g);
  table->of_reflections =
      command
          ->add_option(
              "--reflections", table->reflections,
              "Reflections L of cwy and householder: N or 0, shares as N/2, numbers up to N; with commas "
              "between")
          ->delimiter(',')
          ->check(reflection_count())
          ->group(g);
  command->add_option("--seeds", table->seeds, "Seeds of data and model, with commas between")
      ->delimiter(',')
      ->transform(seed_number())
      ->group(g);
  command
      ->add_option("--out", table->out,
                   "Folder that gets a run directory for each training; a table that was interrupted goes on "
                   "from there. Left out: no training is kept")
      ->group(g);
  command->add_option("--json", table->json, "File for all results and settings")->group(g);
  add_overwrite(*command, table->overwrite)->group(g);
  add_fields(*command, "Search", table->search);
  command->callback([&chosen, table] { chosen = [table] { return bench_translate(*table); }; });
}

}  // namespace orthornn::program
