#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <sstream>

#include "commands/any_model.hpp"
#include "commands/config_file.hpp"
#include "commands/output_file.hpp"
#include "commands/run_figures.hpp"
#include "commands/saved_training.hpp"
#include "commands/task_data.hpp"
#include "commands/train_settings.hpp"
#include "commands/training_results.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "pages/comparison_page.hpp"
#include "pages/training_page.hpp"
#include "support/files.hpp"

namespace orthornn::program {
namespace {

struct ReportSettings {
  std::vector<std::string> sources;
  std::string sentences;
  std::string out;
  bool overwrite = false;
};

/// "copying, delay 200", "mnist, permuted": its sizes, and what is true of it.
std::string task_text(const TaskOptions& options) {
  return std::visit(
      []<class Options>(const Options& own) {
        std::string text = own.name;
        if constexpr (!IsOwnKind<Options>)
          own.fields([&](const char* key, auto member, const Domain& domain, const char*) {
            const auto& value = own.*member;
            using Value = std::decay_t<decltype(value)>;
            if constexpr (std::same_as<Value, bool>) text += value ? fmt::format(", {}", key) : "";
            if constexpr (std::same_as<Value, Index>)
              text += domain.low < domain.high ? fmt::format(", {} {}", key, value) : "";
            if constexpr (HasNames<Value> || std::same_as<Value, std::string>)
              text += text_of(value).empty() ? "" : fmt::format(", {} {}", key, text_of(value));
          });
        return text;
      },
      options);
}

/// "sequences, own.csv, goal forecast": own sequences are known by their file and by what is learned of them.
std::string task_text(const SequencesOptions& options, const fs::path& data) {
  std::string text = fmt::format("{}, {}", options.name, data.filename().string());
  if (options.goal != Goal::automatic) text += fmt::format(", goal {}", name_of(options.goal));
  if (!options.target.empty()) text += fmt::format(", target {}", options.target);
  return text;
}

/// Adds what the training kept of its end.
void add_results(TrainingRun& run) {
  TrainingResults found = read_training_results(run.folder / results_file);
  if (!found.translations.is_null()) {
    run.bleu = real_member(object_member(found.translations, "bleu"), "score");
    run.chrf = real_member(object_member(found.translations, "chrf"), "score");
  }
  run.results = std::move(found);
}

/// Notes results of another step than the last row.
void check_results(TrainingRun& run) {
  if (!run.results || run.rows.empty() || run.rows.back().step == run.results->steps) return;
  run.notes.push_back(fmt::format("{} is of step {}, and the last row of metrics.csv of step {}",
                                  results_file, run.results->steps, run.rows.back().step));
}

/// The text of config.toml but for the seed and comments.
std::string settings_without_seed(const fs::path& config) {
  std::istringstream lines(read_whole_file(config));
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("seed =") && !line.starts_with("#")) rest += line + "\n";
  }
  return rest;
}

/// The task of the settings. One that reads files knows what its model file keeps of them, so that it refuses
/// other data.
std::unique_ptr<Task> task_of_run(TrainSettings& settings, const fs::path& folder) {
  std::unique_ptr<Task> task = settings.make_task();
  if (settings.files.data.empty() && usual_data(settings.task.chosen()).empty()) return task;
  settings.source.parts = SavedTraining(folder).parts_of(*task);
  return settings.make_task();
}

/// Throws FileError for a folder that is no run directory.
void check_run_directory(const fs::path& folder) {
  std::error_code status;
  if (!fs::is_directory(folder, status)) {
    throw FileError(
        fmt::format("'{}' is no folder and no file; expected a run directory of orthornn train, or "
                    "compare.json of orthornn bench compare",
                    folder.string()));
  }
  for (const char* name : {"config.toml", "metrics.csv"}) {
    if (!is_present(folder / name)) {
      throw FileError(fmt::format(
          "'{}' is no run directory: it has no {}; give one that orthornn train wrote, or a folder "
          "of such",
          folder.string(), name));
    }
    check_regular(folder / name);
  }
}

/// Throws FileError for a configuration without a task, UsageError for an invalid one.
void read_settings(const fs::path& config, TrainSettings& settings) {
  CLI::App command;
  settings.add_to(command);
  read_config(command, config.string());
  if (settings.task.name.empty()) {
    throw FileError(
        fmt::format("'{}' names no task; give a run directory that orthornn train wrote", config.string()));
  }
  settings.stack = layers_in(config.string());
}

/// Adds what the configuration says.
void add_settings(TrainingRun& run, const TrainSettings& settings, const Task& task) {
  const TaskOptions task_options = settings.task.chosen();
  const auto* sequences = std::get_if<SequencesOptions>(&task_options);
  run.task = sequences != nullptr ? task_text(*sequences, settings.files.data) : task_text(task_options);
  run.seed = settings.source.seed;
  run.cell = settings.cell_text();
  run.hidden = settings.hidden_size();
  const LayerOptions cell = settings.recurrent();
  if (const Index* reflections = reflections_of(cell))
    run.reflections = *reflections > 0 ? *reflections : run.hidden;
  run.steps = settings.steps();
  try {
    run.metrics = task.metrics();
    // That of sentences follows from their text, which a page does not read.
    if (!task.data().pairs) run.baseline = task.baseline_loss();
  } catch (const FileError& error) {
    run.notes.push_back(fmt::format("what only the data tell is left out: {}", error.what()));
    if (!run.results) return;
    for (const MetricValue& found : run.results->validation.metrics) run.metrics.push_back(found.metric);
    run.baseline = run.results->baseline;
  }
}

/// The number of parameters in a model file; nullopt where there is no file.
std::optional<Index> parameters_in(const fs::path& file) {
  if (!is_present(file)) return std::nullopt;
  const AnyModelOptions options = read_model_info(file).model;
  try {
    return parameter_count(options);
  } catch (const ValueError& error) {
    throw FileError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

/// Reads config.toml, metrics.csv and model.h5 of a run, finished or not. Throws FileError for a folder that
/// is no run and for damaged files, UsageError for an invalid configuration.
TrainingRun read_training_run(const fs::path& folder, const std::string& sentences) {
  check_run_directory(folder);
  TrainSettings settings;
  read_settings(folder / "config.toml", settings);
  const std::unique_ptr<Task> task = task_of_run(settings, folder);
  TrainingRun run;
  run.folder = folder;
  run.settings = settings_without_seed(folder / "config.toml");
  if (is_present(folder / results_file))
    add_or_note(run, "no test data are shown", [&] { add_results(run); });
  add_settings(run, settings, *task);
  read_metrics(run, folder / "metrics.csv");
  check_results(run);
  if (const MetricsRow* last = run.last_evaluation()) run.solved = task->solved(last->evaluation());
  run.parameters = parameters_in(folder / "model.h5");
  if (task->data().pairs) {
    add_translation_figures(run, sentences);
  } else if (run.parameters) {
    if (settings.files.data.empty()) settings.files.data = usual_data(settings.task.chosen());
    add_sequence_figures(run, *task, settings.files);
  }
  return run;
}

/// What a page is made of.
struct ReportSources {
  std::vector<std::string> runs;
  std::vector<SeedsRun> seeds;
  /// compare.json, alone; empty for a page of runs.
  fs::path comparison;
};

/// Adds the run directories in a folder, and in the folders in it. Links are not followed.
void add_runs_in(const fs::path& folder, int levels, ReportSources& sources,
                 std::vector<std::string>& notes) {
  const std::vector<fs::path> inner = folders_in(folder);
  std::error_code status;
  if (fs::is_regular_file(folder / results_file, status)) {
    try {
      sources.seeds.push_back({folder, read_spreads(folder / results_file)});
    } catch (const Error& error) {
      notes.push_back(error.what());
    }
  }
  for (const fs::path& path : inner) {
    if (is_present(path / "config.toml")) {
      if (is_present(path / "metrics.csv")) {
        sources.runs.push_back(path.string());
      } else {
        notes.push_back(fmt::format("'{}' has no metrics.csv and is left out", path.string()));
      }
    } else if (levels > 1) {
      add_runs_in(path, levels - 1, sources, notes);
    }
  }
}

/// Run directories as they are, those in other folders, and the comparison of a folder that has one.
ReportSources sources_of(const std::vector<std::string>& given, std::vector<std::string>& notes) {
  constexpr int levels = 2;
  ReportSources sources;
  for (const fs::path source : given) {
    std::error_code status;
    const bool holds_runs = fs::is_directory(source, status) && !is_present(source / "config.toml");
    const fs::path file = holds_runs ? source / "compare.json" : source;
    if (fs::is_regular_file(file, status)) {
      sources.comparison = file;
    } else {
      const std::size_t before = sources.runs.size();
      if (holds_runs) add_runs_in(source, levels, sources, notes);
      // Where there is no other, what is missing is said of the folder itself.
      if (sources.runs.size() == before) sources.runs.push_back(source.string());
    }
  }
  return sources;
}

/// Each run once, under the name it was first given by; `notes` gets what there is to say about them.
std::string page_of_runs(const ReportSettings& settings, const ReportSources& sources,
                         std::vector<std::string>& notes) {
  const std::vector<std::string>& folders = sources.runs;
  std::vector<TrainingRun> runs;
  for (const std::string& folder : folders) {
    std::error_code ignored;
    if (std::ranges::any_of(
            runs, [&](const TrainingRun& run) { return fs::equivalent(run.folder, folder, ignored); })) {
      notes.push_back(fmt::format("'{}' was given more than once; it is shown once", folder));
      continue;
    }
    runs.push_back(read_training_run(folder, settings.sentences));
    for (const std::string& text : runs.back().notes) notes.push_back(fmt::format("'{}': {}", folder, text));
  }
  if (std::ranges::all_of(runs, [](const TrainingRun& run) { return run.rows.empty(); })) {
    throw FileError(
        fmt::format("there is nothing to draw: no step is logged yet in '{}'", fmt::join(folders, "', '")));
  }
  if (!settings.sentences.empty() &&
      std::ranges::all_of(runs, [](const TrainingRun& run) { return run.attention.empty(); })) {
    throw UsageError(
        fmt::format("--sentences '{}' was given, and no run has a model that translates one of them",
                    settings.sentences));
  }
  return training_page(std::move(runs), sources.seeds);
}

int report(const ReportSettings& settings) {
  std::vector<std::string> notes;
  const ReportSources sources = sources_of(settings.sources, notes);
  const fs::path& file = sources.comparison;
  const bool comparison = !file.empty();
  if (comparison && !settings.sentences.empty()) {
    throw UsageError(fmt::format(
        "--sentences is for training runs, and '{}' is a file; expected run directories", file.string()));
  }
  if (comparison && settings.sources.size() > 1) {
    throw UsageError(
        fmt::format("'{}' is a file; expected run directories, or one compare.json alone", file.string()));
  }
  const fs::path beside = comparison ? fs::path(file).replace_extension(".html") : "report.html";
  const fs::path out = settings.out.empty() ? beside : fs::path(settings.out);
  // Anything else may be what someone still needs: a model, metrics, the JSON itself.
  if (out.extension() != ".html" && out.extension() != ".htm") {
    throw UsageError(fmt::format("--out '{}' was given; expected a name that ends in .html", out.string()));
  }
  std::error_code ignored;
  if (comparison && fs::equivalent(out, file, ignored)) {
    throw UsageError(
        fmt::format("the page would replace '{}', which it is made of; give another --out", file.string()));
  }
  check_output(out, OutputKind::page, settings.overwrite);
  write_file_atomically(out, comparison ? page_of_comparison(file) : page_of_runs(settings, sources, notes),
                        SymbolicLinks::replaced);
  // Now that all went well: an error is to be the only line on standard error.
  for (const std::string& text : notes) note(text);
  fmt::print("page: {}\n", printable(out.string()));
  return success;
}

}  // namespace

void add_report(CLI::App& program, Command& chosen) {
  CLI::App* command =
      program.add_subcommand("report", "An HTML page with plots of training runs, or of a comparison");
  const auto settings = std::make_shared<ReportSettings>();
  command
      ->add_option("runs", settings->sources,
                   "Run directories or folders of such, or what bench compare --out wrote")
      ->required();
  command->add_option("--out", settings->out,
                      "HTML file; left out: report.html, for a comparison beside its JSON");
  add_overwrite(*command, settings->overwrite);
  command->add_option(
      "--sentences", settings->sentences,
      "translate: text with a sentence a line, whose attention is drawn; left out: those that "
      "the run directory keeps of the test data");
  command->callback([&chosen, settings] { chosen = [settings] { return report(*settings); }; });
}

}  // namespace orthornn::program
