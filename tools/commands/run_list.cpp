#include "commands/run_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "commands/any_model.hpp"
#include "commands/config_file.hpp"
#include "commands/folder_lock.hpp"
#include "commands/program.hpp"
#include "commands/saved_training.hpp"
#include "commands/training_results.hpp"
#include "core/checked_json.hpp"
#include "support/files.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

/// What `read(file)` adds. A file that is missing or damaged is noted.
template <class Read>
void read_or_note(ListedRun& run, const char* name, const Read& read) {
  const fs::path file = run.folder / name;
  if (!is_present(file)) {
    run.notes.push_back(fmt::format("there is no {}", name));
    return;
  }
  try {
    check_regular(file);
    read(file);
  } catch (const Error& error) {
    run.notes.emplace_back(error.what());
  }
}

void add_settings(ListedRun& run, const fs::path& file) {
  const Json settings = settings_in(file.string());
  const auto text = [&](const char* key) {
    return settings.contains(key) && settings[key].is_string() ? settings[key].get<std::string>() : "";
  };
  run.task = text("task");
  if (run.task.empty()) run.notes.emplace_back("config.toml names no task");
  run.cell = settings.contains("layer") ? "layers" : text("cell");
  if (const std::string encoder = text("encoder"); !encoder.empty() && encoder != run.cell)
    run.cell += ", encoder " + encoder;
  if (settings.contains("steps") && settings["steps"].is_number_integer())
    run.wanted_steps = settings["steps"].get<std::int64_t>();
}

void take_metrics(ListedRun& run, const fs::path& file) {
  TrainingRun logged;
  read_metrics(logged, file);
  if (const MetricsRow* best = logged.best_evaluation()) run.best_validation_loss = best->evaluation_loss;
  if (!logged.rows.empty()) run.steps = logged.rows.back().step;
  std::ranges::move(logged.notes, std::back_inserter(run.notes));
}

/// After `take_metrics`.
void add_results(ListedRun& run, const fs::path& file) {
  const TrainingResults results = read_training_results(file);
  run.parameters = results.parameters;
  // A training that goes on keeps the results of its former end until it has ended again.
  if (run.steps.value_or(0) > results.steps) return;
  run.state = "finished";
  run.steps = results.steps;
  const Evaluation& tested = results.best_or_last().evaluation;
  run.test_loss = tested.loss;
  if (!tested.metrics.empty()) run.test_metric = tested.metrics.front();
}

/// Of `bench translate`, which has a file of its own. After `take_metrics`.
void add_row_of_table(ListedRun& run, const fs::path& file) try {
  const Json row = parse_json(read_whole_file(file));
  const double loss = real_member(object_member(row, "test"), "cross_entropy");
  run.parameters = integer_member(row, "parameters");
  // It is of the end of a training that may have gone on since.
  if (run.steps.value_or(0) < run.wanted_steps.value_or(0)) return;
  run.state = "finished";
  run.test_loss = loss;
} catch (const ValueError& error) {
  throw FileError(fmt::format("'{}': {}", file.string(), error.what()));
}

ListedRun read_run(const fs::path& folder, const std::string& name) {
  ListedRun run{.folder = folder, .name = name};
  read_or_note(run, "config.toml", [&](const fs::path& file) { add_settings(run, file); });
  read_or_note(run, "metrics.csv", [&](const fs::path& file) { take_metrics(run, file); });
  if (is_present(folder / results_file))
    read_or_note(run, results_file, [&](const fs::path& file) { add_results(run, file); });
  else if (is_present(folder / result_file))
    read_or_note(run, result_file, [&](const fs::path& file) { add_row_of_table(run, file); });
  const SavedTraining saved(folder);
  if (!saved.exists()) run.notes.emplace_back("no model is saved");
  if (run.state != "finished" && saved.exists()) run.state = "interrupted";
  if (is_locked(folder)) run.state = "running";
  // To open a model takes a process of its own. So it is asked only for what no other file tells.
  for (const fs::path& model : {saved.last, saved.best}) {
    if (run.parameters || !is_present(model)) continue;
    read_or_note(run, model.filename().c_str(), [&](const fs::path& file) {
      const ModelFileInfo info = read_model_info(file);
      run.parameters = parameter_count(info.model);
      if (!run.steps) run.steps = info.steps;
    });
  }
  return run;
}

/// Whether the folder has something of a run.
bool is_run(const fs::path& folder) {
  const auto has = [&](const char* name) { return is_present(folder / name); };
  return has("config.toml") || has("metrics.csv") || SavedTraining(folder).exists();
}

/// The names of runs in the folder begin with `prefix`.
void add_runs_in(const fs::path& folder, const std::string& prefix, int levels,
                 std::vector<ListedRun>& runs) {
  for (const fs::path& inner : folders_in(folder)) {
    const std::string name = prefix + inner.filename().string();
    const std::size_t before = runs.size();
    try {
      if (is_run(inner)) {
        runs.push_back(read_run(inner, name));
        continue;
      }
      if (levels > 1) add_runs_in(inner, name + "/", levels - 1, runs);
      if (runs.size() > before) continue;
      runs.push_back(
          {.folder = inner, .name = name, .notes = {"it is no run directory: it has no config.toml"}});
    } catch (const FileError& error) {
      runs.push_back({.folder = inner, .name = name, .notes = {error.what()}});
    }
  }
}

}  // namespace

std::vector<ListedRun> runs_in(const fs::path& folder) {
  if (is_run(folder)) {
    const fs::path named = fs::absolute(folder / "").lexically_normal().parent_path();
    return {read_run(folder, named.filename().string())};
  }
  constexpr int levels = 2;  // the runs of --seeds lie in a folder of their own
  std::vector<ListedRun> runs;
  add_runs_in(folder, "", levels, runs);
  return runs;
}

}  // namespace orthornn::program
