#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "commands/interruption.hpp"
#include "commands/machine.hpp"
#include "commands/standard_streams.hpp"
#include "commands/training.hpp"
#include "commands/training_results.hpp"
#include "commands/translation_metrics.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "pages/stop_on_signal.hpp"

namespace orthornn::program {
namespace {

/// Figures of the test data, which nothing of the training has seen, for the last model and the best: they
/// are printed and put into `results`. The trainer has the best one afterwards, and its figures are returned.
TestEvaluation test_models(Training& training, TrainingResults& results) {
  Trainer& trainer = training.trainer();
  const SavedTraining& saved = training.saved();
  const auto test = [&](const char* which, const std::filesystem::path& file, TestedModel& tested) {
    const TestEvaluation found = evaluate_test_data(trainer.model(), trainer.task());
    fmt::print("test data: {}, {} step {}: {}\n", describe(found.of_targets), which, trainer.steps(),
               printable(file.string()));
    tested = {file.filename().string(), trainer.steps(), found.of_targets};
    return found;
  };
  const TestEvaluation of_last = test("model of", saved.last, results.last);
  if (!trainer.best()) return of_last;
  if (trainer.best()->step == trainer.steps()) {
    results.best = results.last;
    results.best->model = saved.best.filename().string();
    return of_last;
  }
  if (training.unwritten().contain(saved.best)) return of_last;
  try {
    restore(saved.best, trainer);
  } catch (const FileError& error) {
    note(fmt::format("the best model cannot be evaluated: {}", error.what()));
    return of_last;
  }
  return test("best on validation data,", saved.best, results.best.emplace());
}

/// What the trainer's model, as it is now, is worth as a translator: printed, and returned for results.json;
/// null for other tasks. `tested` is of this model.
Json test_translations(Trainer& trainer, const TestEvaluation& tested) {
  const auto* pairs = dynamic_cast<const TranslationTask*>(&trainer.task());
  auto* model = dynamic_cast<EncoderDecoder<float>*>(&trainer.model());
  if (pairs == nullptr || model == nullptr) return {};
  const BeamSearchOptions search;
  fmt::print("translations of the model of step {}:\n", trainer.steps());
  const TranslationMetrics metrics = translation_metrics(*model, *pairs, tested, search, 3);
  print_metrics(metrics, search);
  return json_of(metrics, search);
}

/// What `train_once` ends with.
struct Result {
  int code = success;
  /// Nothing where it was stopped.
  std::optional<TrainingResults> results = {};
  /// Files that could not be written, and why.
  std::string unwritten = {};
};

/// `to_go_on`: options with which this command goes on; empty for those of its run directory. `heading` comes
/// before anything else that is printed, and only for settings that can be.
Result train_once(CLI::App& command, TrainSettings& settings, std::string to_go_on = {},
                  const std::string& heading = {}) {
  say_when_interrupted("interrupted before the first step, so nothing new is saved");
  const std::unique_ptr<Task> task = as_usage([&] { return settings.complete(command); });
  const Execution execution =
      as_usage([&] { return settings.machine.apply(settings.source.batch, task->length()); });
  const std::string folder = settings.out;
  if (to_go_on.empty()) to_go_on = "--resume --out " + shell_word(folder);
  Training training(command, settings, *task, execution);
  Trainer& trainer = training.trainer();
  fmt::print("{}", heading);
  if (const auto* pairs = dynamic_cast<const TranslationTask*>(task.get())) {
    if (const std::string left_out = pairs->left_out(); !left_out.empty()) note(left_out);
  }
  if (training.starts_anew())
    fmt::print("'{}' has no model.h5 yet: starting anew with its settings\n", printable(folder));
  const std::string form = first_form(training.cells());
  fmt::print("{} with {}: {} parameters, hidden size {}, {}batch {}, {} steps, on {}\n", task->name(),
             settings.cell_text(), trainer.model().parameters().count(), settings.hidden_size(),
             form.empty() ? "" : form + " form, ", settings.source.batch, settings.steps(),
             machine_text(execution));
  if (settings.verbose) print_recurrences(training.cells(), execution, task->length(), settings.source.batch);
  if (trainer.steps() > 0) fmt::print("going on after step {}\n", trainer.steps());
  if (training.nothing_is_left())
    fmt::print("nothing is left to do: {} steps were asked for, {} are done\n", settings.steps(),
               trainer.steps());
  std::fflush(stdout);

  const StopOnSignal stop_on_signal;
  const auto stopped = [&](const std::string& when) -> Result {
    if (const std::string unwritten = training.unwritten().text(); !unwritten.empty())
      return {fail(failure, fmt::format("interrupted {}; {}", when, unwritten))};
    return {fail(interrupted, fmt::format("interrupted {}; '{}' is saved, go on with {}", when,
                                          training.saved().last.string(), to_go_on))};
  };
  TrainingEnd end;
  try {
    end = training.run();
  } catch (const Interrupted&) {
    return stopped(fmt::format("after step {}", trainer.steps()));
  }
  TrainingResults results{.task = parse_json(task->config()),
                          .seed = settings.source.seed,
                          .steps = trainer.steps(),
                          .solved = end.solved,
                          .seconds = training.logged_seconds(),
                          .baseline = task->baseline_loss(),
                          .validation = end.validation};
  fmt::print("{} after {} steps and {}: {} on validation data{}; a guesser has {:.4g}\n",
             end.solved ? "solved" : "trained", results.steps, duration(training.seconds()),
             describe(end.validation), end.solved ? "" : ", not solved", results.baseline);
  std::fflush(stdout);
  try {
    results.translations = test_translations(trainer, test_models(training, results));
    leave_if_stop_requested();  // or the training of the next seed would begin
  } catch (const Interrupted&) {
    return stopped("while evaluating on test data");
  }
  const std::filesystem::path file = std::filesystem::path(folder) / results_file;
  training.unwritten().write(file, [file, text = to_json(results)] { write_file_atomically(file, text); });
  training.unwritten().try_again();  // the evaluation may have taken minutes
  Result result{.unwritten = training.unwritten().text()};
  if (settings.until_solved && !end.solved) {
    result.code = fail(not_solved, fmt::format("not solved after {} steps; go on with {} --steps {}",
                                               results.steps, to_go_on, 2 * results.steps));
  }
  if (!result.unwritten.empty()) result.code = fail(failure, result.unwritten);
  result.results = std::move(results);
  return result;
}

/// On test data, of the best model of each seed.
void print_spread(const SeedsResults& results) {
  fmt::print("test data of {} seeds, each by its best model:\n{:>18} {:>12} {:>12} {:>12}\n",
             results.trainings.size(), "", "mean", "sd", "median");
  for (const Spread& spread : spreads_of(results)) {
    const bool is_share = spread.name.ends_with("accuracy");
    const double unit = is_share ? 100 : 1;
    fmt::print("{:>18} {:>12.6g} {:>12.3g} {:>12.6g}\n",
               !is_share                   ? spread.name
               : spread.name == "accuracy" ? "right [%]"
                                           : "sequences [%]",
               unit * spread.mean, unit * spread.deviation, unit * spread.median);
  }
  fmt::print("solved: {} of {}\n",
             std::ranges::count_if(results.trainings, [](const auto& named) { return named.second.solved; }),
             results.trainings.size());
}

/// Trainings that differ in the seed alone: --seed, the next number, and so on, each as one command with this
/// seed would make it, in a folder of its own.
int train_seeds(const CLI::App& given, const TrainSettings& first, Index seeds) {
  std::vector<std::string> common;
  for (const CLI::Option* option : given.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--seeds" || name == "--seed" || name == "--out" || name == "--help")
      continue;
    const std::string text = option->results().front();
    common.push_back(option->get_positional() ? text : fmt::format("{}={}", name, text));
  }
  if (first.out.empty())
    throw UsageError("--seeds needs --out DIR, which gets a run directory for each seed");
  if (first.source.seed > UINT64_MAX - static_cast<std::uint64_t>(seeds - 1)) {
    throw UsageError(fmt::format("--seed {} with --seeds {}: the last seed would be above 2^64 - 1",
                                 first.source.seed, seeds));
  }
  const std::filesystem::path folder = first.out;
  for (const char* name : {"config.toml", "model.h5"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / name, ignored)) continue;
    throw FileError(
        fmt::format("--out '{}' is the run directory of one training, as it has {}; choose another folder",
                    folder.string(), name));
  }
  const auto folder_of = [&](Index i) {
    return folder / fmt::format("seed{}", first.source.seed + static_cast<std::uint64_t>(i));
  };
  const auto was_begun = [&](Index i) {
    std::error_code ignored;
    return std::filesystem::exists(folder_of(i) / "config.toml", ignored);
  };
  // What was not begun cannot go on: it is begun with the settings of one that was.
  std::string settings_of_begun;
  if (first.resume) {
    Index begun = 0;
    while (begun < seeds && !was_begun(begun)) ++begun;
    if (begun == seeds) {
      throw FileError(
          fmt::format("there is no training to resume in '{}': none of its {} run directories "
                      "has a config.toml; leave out --resume to begin",
                      folder.string(), seeds));
    }
    settings_of_begun = "--config=" + (folder_of(begun) / "config.toml").string();
  }
  check_replaceable_results(folder / results_file);
  std::error_code ignored;
  if (!first.resume) std::filesystem::remove(folder / results_file, ignored);
  const std::string to_go_on = fmt::format("--resume --seeds {} --seed {} --out {}", seeds, first.source.seed,
                                           shell_word(folder.string()));
  SeedsResults results;
  int code = success;
  for (Index i = 0; i < seeds; ++i) {
    const std::uint64_t seed = first.source.seed + static_cast<std::uint64_t>(i);
    const std::filesystem::path out = folder_of(i);
    CLI::App command;
    TrainSettings settings;
    settings.add_to(command);
    std::vector<std::string> words = common;
    words.push_back(fmt::format("--seed={}", seed));
    words.push_back("--out=" + out.string());
    if (first.resume && !was_begun(i)) {
      std::erase(words, "--resume=true");
      words.push_back(settings_of_begun);
    }
    std::ranges::reverse(words);  // as CLI11 takes them
    command.parse(std::move(words));
    try {
      const Result result =
          train_once(command, settings, to_go_on,
                     fmt::format("{}seed {} ({} of {})\n", i > 0 ? "\n" : "", seed, i + 1, seeds));
      if (!result.results) return result.code;
      code = std::max(code, result.code);
      if (!result.unwritten.empty()) results.failed.emplace_back(seed, result.unwritten);
      results.trainings.emplace_back(out.filename().string(), *result.results);
    } catch (const DivergenceError& error) {  // of this training alone
      fmt::print("seed {} failed\n", seed);
      results.failed.emplace_back(seed, error.what());
    }
  }
  fmt::print("\n");
  if (!results.trainings.empty()) print_spread(results);
  write_file_atomically(folder / results_file, to_json(results));
  if (results.failed.empty()) return code;
  // A reason may be long.
  constexpr std::size_t most_shown = 3;
  std::vector<std::string> failed;
  for (const auto& [failed_seed, why] : results.failed) {
    if (failed.size() < most_shown) failed.push_back(fmt::format("{} ({})", failed_seed, why));
  }
  return fail(failure, fmt::format("{} of {} trainings failed: seed {}{}", results.failed.size(), seeds,
                                   fmt::join(failed, ", seed "),
                                   results.failed.size() > most_shown ? " and others" : ""));
}

}  // namespace

void add_train(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("train", "Train a model on a task");
  const auto settings = std::make_shared<TrainSettings>();
  const auto seeds = std::make_shared<Index>(1);
  settings->add_to(*command);
  add_value(
      *command, "--seeds", *seeds,
      "Trainings with this seed and the next ones, each in a folder of --out; mean and spread on test data",
      Domain{.low = 1, .high = 1000})
      ->group("Training")
      ->configurable(false);
  command->callback([&chosen, command, settings, seeds] {
    chosen = [command, settings, seeds] {
      go_on_without_output();
      return *seeds > 1 ? train_seeds(*command, *settings, *seeds) : train_once(*command, *settings).code;
    };
  });
}

}  // namespace orthornn::program
