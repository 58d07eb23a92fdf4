// bench translate: cells compared on translation, by one training each and what it is worth on the test data.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/bench_cells.hpp"
#include "bench/table.hpp"
#include "commands/any_model.hpp"
#include "commands/config_file.hpp"
#include "commands/evaluation.hpp"
#include "commands/machine.hpp"
#include "commands/run_files.hpp"
#include "commands/standard_streams.hpp"
#include "commands/training.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "support/files.hpp"
#include "support/statistics.hpp"
#include "support/stop_on_signal.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {
namespace {

const TableColumn table_columns[] = {{"cell", "/cell", 12},
                                     {"L", "/reflections", 6, ".0f"},
                                     {"seed", "/seed", 6, ".0f"},
                                     {"parameters", "/parameters", 10, ".0f"},
                                     {"cross-entropy", "/test/cross_entropy", 13, ".4f"},
                                     {"perplexity", "/test/perplexity", 10, ".3f"},
                                     {"padded", "/test/perplexity_with_padding", 10, ".3f"},
                                     {"BLEU", "/test/bleu/score", 10, ".2f"},
                                     {"chrF2", "/test/chrf/score", 10, ".2f"},
                                     {"seconds", "/seconds", 10, ".1f"},
                                     {"s/epoch", "/seconds_per_epoch", 10, ".2f"}};
/// What a training is worth: all columns but those that name it.
const std::span<const TableColumn> number_columns = std::span(table_columns).subspan(3);

/// One training of the table.
struct TableRun {
  std::string cell;
  /// 0 for cells without reflections.
  Index reflections;
  std::uint64_t seed;

  std::string name() const {
    return fmt::format("{}{}-seed{}", cell, reflections > 0 ? fmt::format("-{}", reflections) : "", seed);
  }
};

struct RunSettings;

struct TranslateBenchmark {
  static constexpr const char* name = "translate";
  static constexpr const char* help =
      "Cells compared on translation: one training each, with perplexity, BLEU, chrF and time";
  /// The options of `train`, as the command line has them. Each run has settings of its own.
  TrainSettings training;
  std::vector<const CLI::Option*> of_training;
  std::vector<std::string> cells = {"cwy", "lstm", "gru", "free", "cayley", "expm"};
  std::vector<std::string> reflections = {"N", "N/2", "N/4", "N/8"};
  const CLI::Option* of_reflections = nullptr;
  std::vector<std::uint64_t> seeds = {1};
  BeamSearchOptions search;
  std::string out;
  ResultsFile results;

  static void fields(auto&& visit) {
    using Self = TranslateBenchmark;
    visit("cells", &Self::cells, domain::any, "Cells in the order of the rows");
    visit("reflections", &Self::reflections, domain::any,
          "Reflections L of cwy and householder: N or 0, shares as N/2, numbers up to N");
    visit("seeds", &Self::seeds, domain::any, "Seeds of data and model");
    visit("out", &Self::out, domain::any,
          "Folder that gets a run directory for each training; a table that was interrupted goes on from "
          "there. Left out: no training is kept");
  }
  void add_to(CLI::App& command);
  int run();

  void check();
  std::vector<TableRun> runs(const RunSettings& any) const;
  void check_folders(const std::vector<TableRun>& runs) const;
  std::vector<TableRun> begin(Json& result) const;
  void add_rows(Json& result, const std::vector<TableRun>& runs, const fs::path& folder,
                UnwrittenFiles& unwritten) const;
};

void TranslateBenchmark::add_to(CLI::App& command) {
  training.add_to(command);
  training.remove_other_tasks(command, TranslationOptions::name);
  training.remove(command, {"task", "--cell", "--reflections", "--seed", "--until-solved", "--out",
                            "--resume", "--verbose"});
  of_training = std::as_const(command).get_options(
      [](const CLI::Option* option) { return option->get_name() != "--help"; });
  command.option_defaults()->group("Table");
  add_settings(command, *this);
  command.get_option("--cells")->check(CLI::IsMember(cell_names()));
  of_reflections = command.get_option("--reflections")->check(reflection_count());
  results.add_to(command);
  add_fields(command, "Search", search);
}

/// The settings of a training that the table's command line makes: those of `orthornn train translate` with
/// the same options. What only other cells have is left out.
struct RunSettings {
  RunSettings(const TranslateBenchmark& table, const TableRun& run, const fs::path& folder) {
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
  const TranslationTask& pairs() const { return dynamic_cast<const TranslationTask&>(*task); }

  CLI::App command;
  TrainSettings settings;
  std::unique_ptr<Task> task;
};

/// Whether there is a training in the folder. Throws FileError for one of other settings, and for a folder
/// that holds something else.
bool holds_training(const fs::path& folder, RunSettings& run) {
  std::error_code ignored;
  if (!is_present(folder) || (fs::is_directory(folder, ignored) && fs::is_empty(folder, ignored)))
    return false;
  const fs::path config = folder / "config.toml";
  if (!is_present(config)) {
    throw FileError(fmt::format("'{}' is no run directory, as it has no config.toml; choose another --out",
                                folder.string()));
  }
  check_regular(config);
  const Json present = settings_in(config.string());
  const Json wanted = settings_of(run.settings.to_toml(run.command));
  Json all = present;
  all.update(wanted);
  // The model files know their data by a checksum. The others change no result.
  for (const char* left_open : {"data", "threads", "log-every", "save-every", "tensorboard"})
    all.erase(left_open);
  const auto text = [](const Json& value) { return value.is_null() ? "none" : json_text(value, -1); };
  for (const auto& entry : all.items()) {
    const Json found = present.value(entry.key(), Json()), expected = wanted.value(entry.key(), Json());
    if (found == expected) continue;
    throw FileError(
        fmt::format("'{}' was trained with {} {}, and this table has {}; give the same settings or "
                    "another --out",
                    folder.string(), entry.key(), text(found), text(expected)));
  }
  return true;
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
    for (const TableColumn& column : number_columns) {
      const bool is_time = std::string_view(column.place).starts_with("/seconds");
      if (!number_at(result, column.place) && !(is_time && result.contains("went_on"))) return std::nullopt;
    }
    return result;
  } catch (const Error&) {
    return std::nullopt;  // it is made again
  }
}

/// Adds the time of the training, by its metrics.csv.
void add_times(Json& row, const fs::path& folder, double steps_per_epoch) {
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
  row["seconds_per_epoch"] =
      (apart ? seconds : last.seconds) / static_cast<double>(apart ? steps : last.step) * steps_per_epoch;
  row["seconds_per_epoch_with_validation"] = !apart;
}

/// Trains to the last step, from where `settings.resume` says. Throws FileError for files that could not be
/// written.
void train_rest(RunSettings& own, const fs::path& folder, const std::string& label) {
  TrainSettings& settings = own.settings;
  const std::string lost = with_unwritten_files([&](UnwrittenFiles& unwritten) {
    const Execution execution = settings.machine.apply(settings.source.batch, own.task->length());
    Training training(own.command, settings, *own.task, execution, unwritten);
    training.run({.stream = stderr, .label = label, .passing = true});
    return unwritten.text(folder);
  });
  if (!lost.empty()) throw FileError(lost);
}

/// Trains what is left to train in the run directory, and evaluates.
void add_result(Json& row, const TranslateBenchmark& table, const TableRun& run, const fs::path& folder,
                const std::string& label) {
  RunSettings own(table, run, folder);
  TrainSettings& settings = own.settings;
  row["settings"] = settings_of(settings.to_toml(own.command));
  settings.resume = holds_training(folder, own);
  const SavedTraining saved(folder);
  const bool trained = settings.resume && saved.has_last() &&
                       read_model_info(saved.last).steps.value_or(0) >= settings.steps();
  if (trained) {
    if (const std::optional<Json> earlier = earlier_result(folder, table.search)) {
      row.update(*earlier);
      return;
    }
    own.task->load();
  } else {
    train_rest(own, folder, label);
  }
  const fs::path model = saved.best_or_last();
  const ModelFileInfo info = read_model_info(model);
  const double steps_per_epoch = static_cast<double>(own.task->batches_per_epoch().value()) /
                                 static_cast<double>(settings.trainer.accumulate);
  Json result = {{"parameters", parameter_count(info.model)},
                 {"epochs", static_cast<double>(settings.steps()) / steps_per_epoch}};
  // metrics.csv does not have the time between its last row and an interruption.
  if (settings.resume && !trained) {
    result["went_on"] = true;
  } else {
    add_times(result, folder, steps_per_epoch);
  }
  own.task.reset();  // the evaluation reads its data itself
  // As `orthornn eval` of this file.
  const Execution execution = settings.machine.apply();
  const EvaluationSource source{.model = model.string(), .files = settings.files, .search = table.search};
  result["test"] = json_of(evaluate_file(source, execution), source, execution);
  result["test"].erase("model");
  write_file_atomically(folder / result_file, json_text(result) + "\n");
  row.update(result);
}

/// A row: what the training is worth, or why it failed. An interruption throws Interrupted. `label` begins
/// the line of the progress.
Json table_row(const TranslateBenchmark& table, const TableRun& run, const fs::path& folder,
               const std::string& label) {
  Json row = {{"run", run.name()},
              {"cell", run.cell},
              {"reflections", run.reflections > 0 ? Json(run.reflections) : Json()},
              {"seed", run.seed},
              {"state", "done"}};
  std::string error;
  try {
    add_result(row, table, run, folder, label);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& failed) {
    error = failed.what();
  } catch (const std::bad_alloc&) {
    error = "out of memory";
  }
  if (error.empty()) return row;
  row["state"] = "failed";
  row["error"] = error;
  return row;
}

/// Mean and standard deviation of the trainings of one cell.
Json seeds_summary(const std::vector<Json>& rows) {
  Json summary = {{"cell", rows[0]["cell"]},
                  {"reflections", rows[0]["reflections"]},
                  {"seeds", rows.size()},
                  {"mean", Json::object()},
                  {"deviation", Json::object()}};
  for (const TableColumn& column : number_columns) {
    std::vector<double> values;
    for (const Json& row : rows) {
      if (const std::optional<double> value = number_at(row, column.place)) values.push_back(*value);
    }
    if (values.size() < 2) continue;
    const Json::json_pointer place(column.place);
    summary["mean"][place] = mean(values);
    summary["deviation"][place] = deviation(values);
  }
  return summary;
}

void print_summary(const Json& summary) {
  const std::pair<const char*, const char*> lines[] = {{"mean", "mean"}, {"deviation", "sd"}};
  for (const auto& [key, title] : lines) {
    Json line = summary[key];
    line.update({{"cell", summary["cell"]}, {"reflections", summary["reflections"]}, {"seed", title}});
    print_row(table_columns, line);
  }
}

/// What can be seen before the settings are complete.
void TranslateBenchmark::check() {
  // It has a say in which options there may be.
  if (training.encoder.empty() && !training.config.empty())
    training.encoder = setting_in(training.config, "encoder");
  for (const CLI::Option* option : of_training) {
    if (option->count() == 0) continue;
    if (std::ranges::any_of(cells, [&](const auto& cell) { return training.takes(*option, cell); })) continue;
    throw UsageError(fmt::format("{} was given, and --cells {} has none that takes it", option->get_name(),
                                 fmt::join(cells, ",")));
  }
  results.check();
  if (out.empty()) return;
  std::error_code ignored;
  fs::path place = fs::absolute(out, ignored);
  while (!is_present(place) && place.has_relative_path()) place = place.parent_path();
  if (access(place.c_str(), W_OK) != 0) {
    throw FileError(fmt::format("cannot write in '{}': {}; choose another --out", place.string(),
                                std::generic_category().message(errno)));
  }
  go_on_without_output();
}

/// Cells in their order, each with its numbers of reflections and with these all seeds; nothing twice. `any`
/// has what all runs have in common. Throws UsageError for reflections that are too many, or that no cell
/// takes.
std::vector<TableRun> TranslateBenchmark::runs(const RunSettings& any) const {
  const std::vector<Index> counts =
      reflections_at(reflections, any.settings.hidden_size(), AboveN::is_refused);
  std::vector<TableRun> all;
  bool any_reflects = false;
  for (const std::string& cell : each_once(cells)) {
    const bool reflects = any.settings.takes(*any.command.get_option("--reflections"), cell);
    any_reflects |= reflects;
    for (const Index count : reflects ? counts : std::vector<Index>{0}) {
      for (const std::uint64_t seed : each_once(seeds)) all.push_back({cell, count, seed});
    }
  }
  if (!any_reflects && of_reflections->count() > 0) {
    throw UsageError(fmt::format("--reflections was given, and --cells {} has none with reflections",
                                 fmt::join(cells, ",")));
  }
  return all;
}

/// Before hours of training: throws FileError for folders that cannot be used.
void TranslateBenchmark::check_folders(const std::vector<TableRun>& all) const {
  const fs::path folder = out;
  std::error_code ignored;
  if (is_present(folder) && !fs::is_directory(folder, ignored))
    throw FileError(fmt::format("--out '{}' is a file; expected a folder, or none yet", out));
  for (const char* file : {"config.toml", "model.h5"}) {
    if (!is_present(folder / file)) continue;
    throw FileError(fmt::format(
        "--out '{}' is the run directory of one training, as it has {}; choose another folder, which "
        "gets a run directory for each training",
        out, file));
  }
  for (const TableRun& run : all) {
    if (!is_present(folder / run.name())) continue;
    check_run_files(folder / run.name());
    RunSettings own(*this, run, folder / run.name());
    holds_training(folder / run.name(), own);
  }
}

/// Checks what all runs have in common, and the data, in a folder where no run is. Prints the head of the
/// table, and adds the machine to `result`.
std::vector<TableRun> TranslateBenchmark::begin(Json& result) const {
  const ScratchFolder nothing("the settings cannot be checked");
  const RunSettings any(*this, {cells.front(), 0, seeds.front()}, nothing.path() / "run");
  std::vector<TableRun> all = runs(any);
  if (!out.empty()) check_folders(all);
  as_usage([&] { any.task->load(); });
  const TranslationTask& pairs = any.pairs();
  if (!pairs.left_out().empty()) note(pairs.left_out());
  const TrainSettings& settings = any.settings;
  const Execution execution = settings.machine.apply(settings.source.batch);
  fmt::print(
      "translate {}: {} trainings of {} steps,{} {} batches an epoch, hidden size {}, batch {}, on {}\n",
      name_of(std::get<TranslationOptions>(settings.task.chosen()).direction), all.size(), settings.steps(),
      settings.encoder.empty() ? "" : fmt::format(" encoder {},", settings.encoder),
      pairs.batches_per_epoch().value(), settings.hidden_size(), settings.source.batch,
      machine_text(execution));
  fmt::print(
      "test data: {} sentences, by the model of the smallest validation loss; beam {}; padded: the "
      "perplexity\n"
      "if padding is counted as tutorials do; seconds: of the training, with validations and saves; sd: "
      "standard\n"
      "deviation over the seeds\n\n",
      pairs.held_out_pairs(HeldOut::test).size(), search.beam);
  print_titles(table_columns);
  result["machine"] = machine_fields(execution);
  return all;
}

/// Adds all rows, and after the last seed of a cell their summary. Throws Interrupted between them or within
/// one, which is not added then.
void TranslateBenchmark::add_rows(Json& result, const std::vector<TableRun>& all, const fs::path& folder,
                                  UnwrittenFiles& unwritten) const {
  const TableColumn failed_columns[] = {
      table_columns[0], table_columns[1], table_columns[2], {"", "/error", 0}};
  std::vector<Json> of_cell;
  for (const TableRun& run : all) {
    leave_if_stop_requested();
    const std::string label = fmt::format("{}/{} {}  ", result["rows"].size() + 1, all.size(), run.name());
    const Json row = table_row(*this, run, folder / run.name(), label);
    result["rows"].push_back(row);
    if (row["state"] == "done") {
      print_row(table_columns, row);
      of_cell.push_back(row);
    } else {
      print_row(failed_columns, row);
    }
    std::error_code ignored;
    if (out.empty()) fs::remove_all(folder / run.name(), ignored);  // some runs would fill a disk
    if (run.seed == each_once(seeds).back()) {
      if (of_cell.size() > 1) print_summary(result["summary"].emplace_back(seeds_summary(of_cell)));
      of_cell.clear();
    }
    if (results.path.empty()) continue;
    // Now, as the rest may be interrupted.
    unwritten.write(results.path, [&file = results.path, text = json_text(result) + "\n"] {
      write_file_atomically(file, text, SymbolicLinks::replaced);
    });
  }
}

int TranslateBenchmark::run() {
  check();
  Json result = {{"benchmark", name}, {"library_version", version()}};
  const std::vector<TableRun> all = begin(result);
  result["rows"] = Json::array();
  result["summary"] = Json::array();

  const StopOnSignal stop_on_signal;
  std::optional<ScratchFolder> scratch;
  if (out.empty()) scratch.emplace("no training can be kept");
  UnwrittenFiles unwritten;
  const Json& rows = result["rows"];
  try {
    add_rows(result, all, scratch ? scratch->path() : fs::path(out), unwritten);
  } catch (const Interrupted&) {
    unwritten.try_again();
    const std::string lost = unwritten.text();
    return fail(interrupted, fmt::format("interrupted after {} of {} rows; {}{}", rows.size(), all.size(),
                                         out.empty() ? "without --out no training is kept"
                                                     : "the same command goes on from there",
                                         lost.empty() ? "" : "; " + lost));
  }
  unwritten.try_again();
  int code = success;
  if (const std::string lost = unwritten.text(); !lost.empty()) code = fail(failure, lost);
  const auto failed = std::ranges::count_if(rows, [](const Json& row) { return row["state"] == "failed"; });
  if (failed > 0) code = fail(failure, fmt::format("{} of {} trainings failed", failed, all.size()));
  return code;
}

}  // namespace

Benchmark translate_benchmark() { return benchmark_of<TranslateBenchmark>(); }

}  // namespace orthornn::program
