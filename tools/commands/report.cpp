#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <sstream>

#include "commands/any_model.hpp"
#include "commands/config_file.hpp"
#include "commands/delta_figures.hpp"
#include "commands/output_file.hpp"
#include "commands/saved_training.hpp"
#include "commands/task_data.hpp"
#include "commands/train_settings.hpp"
#include "commands/training_results.hpp"
#include "commands/translation.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "pages/comparison_page.hpp"
#include "pages/training_page.hpp"
#include "support/files.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

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

/// Calls `add`. Where it throws, notes what the page lacks for that.
template <class Add>
void add_or_note(TrainingRun& run, const std::string& lacking, const Add& add) {
  try {
    add();
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("{}: {}", lacking, error.what()));
  }
}

/// Sentences of a file, one a line, perhaps with a tab and a translation.
std::vector<SentencePair> read_sentences(const fs::path& file) {
  constexpr std::size_t most = 20, longest = Task::longest_sample_line;
  check_regular(file);
  std::istringstream text(read_whole_file(file));
  std::vector<SentencePair> sentences;
  for (std::string line; std::getline(text, line);) {
    if (line.size() > longest || sentences.size() == most) {
      throw FileError(
          fmt::format("'{}' has more than {} lines, or a line of more than {} bytes; expected a few "
                      "sentences, of which a page shows the attention",
                      file.string(), most, longest));
    }
    const std::size_t end = std::min(line.find_first_of("\t\r"), line.size());
    const std::string rest = line.substr(end < line.size() && line[end] == '\t' ? end + 1 : line.size());
    sentences.push_back({line.substr(0, end), rest.substr(0, rest.find_first_of("\t\r"))});
  }
  return sentences;
}

/// Translates the sentences and adds what a map can show of them.
void add_attention(TrainingRun& run, const std::vector<SentencePair>& sentences) {
  constexpr std::size_t most_tokens = 60;
  const LoadedTranslator translator(SavedTraining(run.folder).best_or_last().string(), {});
  for (const SentencePair& sentence : sentences) {
    add_or_note(run, fmt::format("no attention is drawn for '{}'", sentence.source.substr(0, 40)), [&] {
      AlignedTranslation found = translator->align(sentence.source);
      if (found.source.empty()) return;
      if (std::max(found.source.size(), found.target.size()) > most_tokens) {
        throw ValueError(fmt::format("{} tokens and {} of its translation; a map shows at most {}",
                                     found.source.size(), found.target.size(), most_tokens));
      }
      run.attention.push_back({sentence, std::move(found)});
    });
  }
}

/// How much longer sequences are than those of the training, where a page shows what is true of them.
constexpr Index times_trained = 4;

/// Their steps, for which the model has positions.
Index longer_length(const Task& task, const AnyModelOptions& model) {
  const Index longer = times_trained * task.length();
  return std::min(longer, fewest_positions(layers_of(model)).value_or(longer));
}

/// Follows the DeltaProduct layers of the best model along a test sequence, a longer one where the task has
/// such.
void add_delta_products(TrainingRun& run, const Task& task, const fs::path& file, const std::string& data) {
  ModelFileInfo info;
  if (!has_delta_products(read_model_info(file).model)) return;
  const auto model = load_model(file, {}, &info);
  const Index longer = std::min(longer_length(task, info.model), most_delta_steps(*model));
  const bool has_lengths = longer > 0 && task.with_length(longer, 1) != nullptr;
  DeltaFigures figures = delta_figures(*model, info, has_lengths ? longer : 0, data);
  run.trained_length = task.length();
  run.delta_products = std::move(figures.layers);
  run.rank_steps = std::move(figures.rank_steps);
}

/// Evaluates the best model on test sequences of four times the length, where the task has such with answers
/// at their steps.
void add_step_accuracies(TrainingRun& run, const Task& task, const fs::path& file) {
  constexpr Index most_steps = Index{1} << 18;
  if (!task.data().every_step) return;
  const Index length = longer_length(task, read_model_info(file).model);
  const std::unique_ptr<Task> longer =
      task.with_length(length, std::clamp<Index>(most_steps / length, 1, task.batch_size()));
  if (longer == nullptr) return;
  const auto model = load_model(file);
  std::vector<Index> right(static_cast<std::size_t>(length)), counted(right);
  evaluate(*model, *longer, HeldOut::test, [&](const Batch& batch, const BatchLoss&) {
    const ConstTensorView<std::int32_t> classes = batch.integers(batch_names::classes);
    for (Index t = 0; t < length; ++t) {
      for (Index b = 0; b < classes.shape()[1]; ++b) {
        if (classes(t, b) < 0) continue;
        const ConstTensorView<float> y = model->outputs()[t][b];
        ++counted[t];
        right[t] += std::ranges::max_element(y) - y.begin() == classes(t, b) ? 1 : 0;
      }
    }
  });
  for (Index t = 0; t < length; ++t) {
    if (counted[t] == 0) continue;
    run.step_accuracies.push_back({t + 1, static_cast<double>(right[t]) / static_cast<double>(counted[t])});
  }
  run.trained_length = task.length();
}

/// Adds what the training kept of its end.
void add_results(TrainingRun& run) {
  TrainingResults found = read_training_results(run.folder / results_file);
  if (!found.translations.is_null()) {
    run.bleu = real_member(object_member(found.translations, "bleu"), "score");
    run.chrf = real_member(object_member(found.translations, "chrf"), "score");
  }
  if (!run.rows.empty() && run.rows.back().step != found.steps) {
    run.notes.push_back(fmt::format("{} is of step {}, and the last row of metrics.csv of step {}",
                                    results_file, found.steps, run.rows.back().step));
  }
  run.results = std::move(found);
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
  run.task = task_text(settings.task.chosen());
  run.cell = settings.cell_text();
  run.hidden = settings.hidden_size();
  const LayerOptions cell = settings.recurrent();
  if (const Index* reflections = reflections_of(cell))
    run.reflections = *reflections > 0 ? *reflections : run.hidden;
  run.steps = settings.steps();
  run.metrics = task.metrics();
  // That of sentences follows from their text, which a page does not read.
  if (!task.data().pairs) run.baseline = task.baseline_loss();
}

/// The number of parameters in a model file; nullopt where there is no file.
std::optional<Index> parameter_count(const fs::path& file) {
  if (!is_present(file)) return std::nullopt;
  const AnyModelOptions options = read_model_info(file).model;
  try {
    return std::visit([](const auto& model) { return parameter_layout<float>(model).count(); }, options);
  } catch (const ValueError& error) {
    throw FileError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

/// Adds what a model of one sequence shows: accuracies over the steps, and DeltaProduct layers.
void add_sequence_figures(TrainingRun& run, const Task& task, const std::string& data) {
  const fs::path model = SavedTraining(run.folder).best_or_last();
  add_or_note(run, "no accuracy over the steps is drawn", [&] { add_step_accuracies(run, task, model); });
  add_or_note(run, "no step sizes of DeltaProduct layers are drawn",
              [&] { add_delta_products(run, task, model, data); });
}

/// Adds the attention to `sentences`, a file; "": to those that the run directory keeps.
void add_translation_figures(TrainingRun& run, const std::string& sentences) {
  const fs::path file = sentences.empty() ? run.folder / sample_file : fs::path(sentences);
  if (!run.parameters) {
    run.notes.push_back(
        "no attention is drawn: model.h5 is missing; expected the one that the training saved");
  } else if (sentences.empty() && !is_present(file)) {
    run.notes.push_back(fmt::format(
        "no attention is drawn, as there is no {}; give sentences by --sentences FILE", sample_file));
  } else {
    add_attention(run, read_sentences(file));
  }
}

/// Reads config.toml, metrics.csv and model.h5 of a run, finished or not. Throws FileError for a folder that
/// is no run and for damaged files, UsageError for an invalid configuration.
TrainingRun read_training_run(const fs::path& folder, const std::string& sentences) {
  check_run_directory(folder);
  TrainSettings settings;
  read_settings(folder / "config.toml", settings);
  const std::unique_ptr<Task> task = settings.make_task();
  TrainingRun run;
  run.folder = folder;
  add_settings(run, settings, *task);
  read_metrics(run, folder / "metrics.csv");
  if (is_present(folder / results_file))
    add_or_note(run, "no test data are shown", [&] { add_results(run); });
  if (const MetricsRow* last = run.last_evaluation()) run.solved = task->solved(last->evaluation());
  run.parameters = parameter_count(folder / "model.h5");
  if (task->data().pairs) {
    add_translation_figures(run, sentences);
  } else if (run.parameters) {
    add_sequence_figures(run, *task, settings.data.empty() ? usual_data(task->name()) : settings.data);
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
  std::error_code status;
  std::vector<fs::path> inner;
  for (fs::directory_iterator entry(folder, status), end; !status && entry != end; entry.increment(status)) {
    if (fs::is_directory(entry->symlink_status(status))) inner.push_back(entry->path());
  }
  if (status)
    throw FileError(fmt::format("cannot read the folder '{}': {}", folder.string(), status.message()));
  // seed2 before seed10
  std::ranges::sort(inner, {}, [](const fs::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.substr(0, name.find_last_not_of("0123456789") + 1), std::pair(name.size(), name));
  });
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
