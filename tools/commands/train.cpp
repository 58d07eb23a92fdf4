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
#include "commands/progress.hpp"
#include "commands/standard_streams.hpp"
#include "commands/training.hpp"
#include "commands/training_results.hpp"
#include "commands/translation.hpp"
#include "core/quantity.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "support/files.hpp"
#include "support/stop_on_signal.hpp"

namespace orthornn::program {
namespace {

/// Figures of the test data, which nothing of the training has seen, for the last model and the best: they
/// are printed and put into `results`. The trainer has the best one afterwards, and its figures are returned.
TestEvaluation test_models(Training& training, const UnwrittenFiles& unwritten, TrainingResults& results) {
  Trainer& trainer = training.trainer();
  const SavedTraining& saved = training.saved();
  const auto test = [&](const char* which, const std::filesystem::path& file, TestedModel& tested) {
    const TestEvaluation found = evaluate_test_data(trainer.model(), trainer.task());
    fmt::print("test data: {}, {} step {}{} {}\n", describe(found.of_targets), which, trainer.steps(),
               unwritten.contain(file) ? ", not saved as" : ":", printable(file.string()));
    tested = {"", trainer.steps(), found.of_targets};
    return found;
  };
  const TestEvaluation of_last = test("model of", saved.last, results.last);
  if (!trainer.best()) return of_last;
  if (trainer.best()->step == trainer.steps()) {
    results.best = results.last;
    return of_last;
  }
  if (unwritten.contain(saved.best)) return of_last;
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
  const BeamSearchOptions search;
  const std::optional<TranslationMetrics> metrics =
      translation_metrics(trainer.model(), trainer.task(), tested, search, 3);
  if (!metrics) return {};
  fmt::print("translations of the model of step {}:\n", trainer.steps());
  print_metrics(*metrics, search);
  return json_of(*metrics, search);
}

/// Which parameters --init-from has given, and which not.
void print_taken(const TakenParameters& parameters, const std::string& file) {
  fmt::print("{} of {} parameters are those of '{}'{}\n", parameters.taken.size(),
             parameters.taken.size() + parameters.untaken.size(), printable(file),
             parameters.untaken.empty() ? "" : "; drawn anew:");
  for (const UntakenParameter& own : parameters.untaken) {
    fmt::print("  {} {}, {} there\n", own.name, to_string(own.shape),
               own.shape_in_file ? to_string(*own.shape_in_file) : "not");
  }
}

/// Why a training ended before its last step, where it did so by --patience.
void print_early_end(const TrainSettings& settings, const std::optional<BestResult>& best) {
  const std::string which =
      best ? fmt::format("has been below the validation loss {:.4g} of step {}", best->loss, best->step)
           : "has had a finite validation loss";
  fmt::print("stopped early: of {} in a row none {} (--patience)\n",
             quantity(settings.patience, "evaluation"), which);
}

/// How a training goes on that ended without solving its task.
std::string way_to_go_on(const TrainSettings& settings, const TrainingEnd& end, std::int64_t steps) {
  return end.out_of_patience ? fmt::format("--patience {}", 2 * settings.patience)
                             : fmt::format("--steps {}", 2 * steps);
}

/// What there is to say before the first step.
void print_beginning(Training& training, const TrainSettings& settings, const Task& task,
                     const Execution& execution) {
  if (const std::string left_out = task.left_out(); !left_out.empty()) note(left_out);
  if (task.data().classes == 1)
    note("all targets are of one class, so there is nothing to learn; expected data of several classes");
  if (training.starts_anew())
    fmt::print("'{}' has no model.h5 yet: starting anew with its settings\n", printable(settings.out));
  const Trainer& trainer = training.trainer();
  const std::string form = first_form(training.cells());
  const Index accumulated = settings.trainer.accumulate;
  fmt::print("{} with {}: {} parameters, hidden size {}, {}batch {}{}, {} steps, on {}\n", task.name(),
             settings.cell_text(), trainer.model().parameters().count(), settings.hidden_size(),
             form.empty() ? "" : form + " form, ", settings.source.batch,
             accumulated > 1 ? fmt::format(" times {}", accumulated) : "", settings.steps(),
             machine_text(execution));
  if (training.taken()) print_taken(*training.taken(), settings.init_from);
  if (settings.verbose) print_recurrences(training.cells(), execution, task.length(), settings.source.batch);
  if (trainer.steps() > 0) fmt::print("going on after step {}\n", trainer.steps());
  if (training.nothing_is_left())
    fmt::print("nothing is left to do: {} steps were asked for, {} are done\n", settings.steps(),
               trainer.steps());
  std::fflush(stdout);
}

/// Without the figures of the test data.
TrainingResults results_of(Training& training, const TrainSettings& settings, const Task& task,
                           const TrainingEnd& end) {
  return {.task = parse_json(task.config()),
          .seed = settings.source.seed,
          .steps = training.trainer().steps(),
          .ended_by = end.out_of_patience                   ? "patience"
                      : settings.until_solved && end.solved ? "solved"
                                                            : "steps",
          .solved = end.solved,
          .seconds = training.logged_seconds(),
          .baseline = task.baseline_loss(),
          .parameters = training.trainer().model().parameters().count(),
          .validation = end.validation};
}

/// Writes results.json, which names the models that are saved.
void save_results(const Training& training, UnwrittenFiles& unwritten, TrainingResults& results) {
  const auto name_if_saved = [&](const std::filesystem::path& model) {
    return unwritten.contain(model) ? "" : model.filename().string();
  };
  results.last.model = name_if_saved(training.saved().last);
  if (results.best) results.best->model = name_if_saved(training.saved().best);
  const std::filesystem::path file = training.saved().last.parent_path() / results_file;
  unwritten.write(file, [file, text = to_json(results)] { write_file_atomically(file, text); });
}

/// What `train_once` ends with.
struct Result {
  int code = success;
  /// Nothing where it was stopped.
  std::optional<TrainingResults> results = {};
};

/// How a training is one of several.
struct OneOfSeveral {
  /// The folder that has their run directories.
  std::filesystem::path folder;
  /// Options with which they all go on.
  std::string to_go_on;
  /// Comes before anything else that is printed, and only for settings that can be.
  std::string heading;
};

/// `unwritten` gets the files that cannot be written.
Result train_once(CLI::App& command, TrainSettings& settings, UnwrittenFiles& unwritten,
                  const std::optional<OneOfSeveral>& several = {}) {
  say_when_interrupted("interrupted before the first step, so nothing new is saved");
  const std::unique_ptr<Task> task = as_usage([&] {
    const Progress reading("reading the data");
    return settings.complete(command);
  });
  const Execution execution =
      as_usage([&] { return settings.machine.apply(settings.source.batch, task->length()); });
  const std::string folder = settings.out;
  const std::string to_go_on = several ? several->to_go_on : "--resume --out " + shell_word(folder);
  Training training(command, settings, *task, execution, unwritten);
  Trainer& trainer = training.trainer();
  if (several) fmt::print("{}", several->heading);
  print_beginning(training, settings, *task, execution);
  const Json origin = origin_fields(execution);  // now, as the commit may be another one at the end
  const std::int64_t first_step = trainer.steps();
  const StopOnSignal stop_on_signal;
  const auto stopped = [&](const std::string& when) -> Result {
    const std::filesystem::path named_from = several ? several->folder : std::filesystem::path(folder);
    unwritten.try_again();
    if (const std::string lost = unwritten.text(named_from); !lost.empty())
      return {fail(failure, fmt::format("interrupted {}; {}", when, lost))};
    return {fail(interrupted, fmt::format("interrupted {}; '{}' is saved, go on with {}", when,
                                          training.saved().last.string(), to_go_on))};
  };
  TrainingEnd end;
  try {
    end = training.run();
  } catch (const Interrupted&) {
    return stopped(fmt::format("after step {}", trainer.steps()));
  }
  TrainingResults results = results_of(training, settings, *task, end);
  // A command that takes no step has not made the results that are there.
  const std::filesystem::path made = std::filesystem::path(folder) / results_file;
  results.origin = trainer.steps() == first_step && is_present(made) ? origin_in(made) : origin;
  fmt::print("{} after {} steps and {}: {} on validation data{}; a guesser has {:.4g}\n",
             end.solved ? "solved" : "trained", results.steps, duration(training.seconds()),
             describe(end.validation), end.solved ? "" : ", not solved", results.baseline);
  if (end.out_of_patience) print_early_end(settings, trainer.best());
  std::fflush(stdout);
  try {
    results.translations = test_translations(trainer, test_models(training, unwritten, results));
    leave_if_stop_requested();  // or the training of the next seed would begin
  } catch (const Interrupted&) {
    return stopped("while evaluating on test data");
  }
  unwritten.try_again();  // the evaluation may have taken minutes
  save_results(training, unwritten, results);
  Result result;
  if (settings.until_solved && !end.solved) {
    result.code = fail(not_solved, fmt::format("not solved after {} steps; go on with {} {}", results.steps,
                                               to_go_on, way_to_go_on(settings, end, results.steps)));
  }
  result.results = std::move(results);
  return result;
}

int train_alone(CLI::App& command, TrainSettings& settings) {
  return with_unwritten_files([&](UnwrittenFiles& unwritten) {
    const Result result = train_once(command, settings, unwritten);
    unwritten.try_again();
    const std::string lost = result.results ? unwritten.text(settings.out) : "";
    return lost.empty() ? result.code : fail(failure, lost);
  });
}

/// Prints what `spreads_of` finds.
void print_spread(const SeedsResults& results) {
  fmt::print(
      "test data of {} seeds, each by its best model, or else its last:\n{:>20} {:>12} {:>12} "
      "{:>12}\n",
      results.trainings.size(), "", "mean", "sd", "median");
  for (const Spread& spread : spreads_of(results)) {  // none without trainings
    const auto& metrics = results.trainings.front().second.best_or_last().evaluation.metrics;
    const auto found =
        std::ranges::find(metrics, spread.name,
                          [](const MetricValue& value) -> const std::string& { return value.metric.name; });
    const bool is_share = found != metrics.end() && found->metric.is_share;
    const double unit = is_share ? 100 : 1;
    fmt::print("{:>20} {:>12.6g} {:>12.3g} {:>12.6g}\n",
               found == metrics.end() ? spread.name : found->metric.title + (is_share ? " [%]" : ""),
               unit * spread.mean, unit * spread.deviation, unit * spread.median);
  }
  fmt::print("solved: {} of {}\n",
             std::ranges::count_if(results.trainings, [](const auto& named) { return named.second.solved; }),
             results.trainings.size());
}

/// Trainings that differ in the seed alone, each in a run directory of its own.
struct Seeds {
  std::filesystem::path folder;
  std::uint64_t first;
  Index count;

  std::uint64_t seed(Index i) const { return first + static_cast<std::uint64_t>(i); }
  std::filesystem::path folder_of(Index i) const { return folder / fmt::format("seed{}", seed(i)); }
  bool was_begun(Index i) const { return is_present(folder_of(i) / "config.toml"); }
  /// Options with which all of them go on.
  std::string to_go_on() const {
    return fmt::format("--resume --seeds {} --seed {} --out {}", count, first, shell_word(folder.string()));
  }
};

/// Those that the settings ask for. Throws UsageError, and FileError for a folder where they cannot be.
Seeds seeds_of(const TrainSettings& settings, Index count) {
  if (settings.out.empty())
    throw UsageError("--seeds needs --out DIR, which gets a run directory for each seed");
  if (settings.source.seed > UINT64_MAX - static_cast<std::uint64_t>(count - 1)) {
    throw UsageError(fmt::format("--seed {} with --seeds {}: the last seed would be above 2^64 - 1",
                                 settings.source.seed, count));
  }
  const Seeds seeds{settings.out, settings.source.seed, count};
  for (const char* name : {"config.toml", "model.h5"}) {
    if (!is_present(seeds.folder / name)) continue;
    throw FileError(
        fmt::format("--out '{}' is the run directory of one training, as it has {}; choose another folder",
                    seeds.folder.string(), name));
  }
  for (Index i = 0; !settings.resume && i < count; ++i) {
    if (!SavedTraining(seeds.folder_of(i)).exists()) continue;
    throw FileError(
        fmt::format("'{}' holds a trained model already: go on with all seeds by --resume, or choose another "
                    "--out",
                    seeds.folder_of(i).string()));
  }
  check_replaceable_results(seeds.folder / results_file, ResultsOf::seeds);
  return seeds;
}

/// What the command line gives to every training.
std::vector<std::string> common_words(const CLI::App& given) {
  std::vector<std::string> words;
  for (const CLI::Option* option : given.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--seeds" || name == "--seed" || name == "--out" || name == "--help")
      continue;
    const std::string text = option->results().front();
    words.push_back(option->get_positional() ? text : fmt::format("{}={}", name, text));
  }
  return words;
}

/// The option by which a training that was not begun, and cannot be resumed, gets the settings of one that
/// was. Throws FileError where there is no such one.
std::string settings_of_begun(const Seeds& seeds) {
  for (Index i = 0; i < seeds.count; ++i) {
    if (seeds.was_begun(i)) return "--config=" + (seeds.folder_of(i) / "config.toml").string();
  }
  throw FileError(
      fmt::format("there is no training to resume in '{}': its {} run directories have no config.toml; leave "
                  "out --resume to begin",
                  seeds.folder.string(), seeds.count));
}

/// Adds the seeds whose files are not written.
void add_unwritten(SeedsResults& results, const Seeds& seeds, const UnwrittenFiles& unwritten) {
  for (Index i = 0; i < seeds.count; ++i) {
    const std::string lost = unwritten.text(seeds.folder_of(i));
    if (lost.empty()) continue;
    const auto found =
        std::ranges::find(results.failed, seeds.seed(i), &std::pair<std::uint64_t, std::string>::first);
    if (found == results.failed.end()) {
      results.failed.emplace_back(seeds.seed(i), lost);
    } else {
      found->second += "; " + lost;
    }
  }
  std::ranges::sort(results.failed);
}

/// Prints the spread, writes results.json and returns the exit code, which is `code` where all went well.
int finish_seeds(SeedsResults& results, const Seeds& seeds, UnwrittenFiles& unwritten, int code) {
  unwritten.try_again();
  add_unwritten(results, seeds, unwritten);
  fmt::print("\n");
  if (!results.trainings.empty()) print_spread(results);
  const std::filesystem::path file = seeds.folder / results_file;
  unwritten.write(file, [file, text = to_json(results)] { write_file_atomically(file, text); });
  if (unwritten.contain(file)) code = fail(failure, unwritten.text(seeds.folder));
  if (results.failed.empty()) return code;
  // A reason may be long.
  constexpr std::size_t most_shown = 3;
  std::vector<std::string> failed;
  for (const auto& [seed, why] : results.failed) {
    if (failed.size() < most_shown) failed.push_back(fmt::format("{} ({})", seed, why));
  }
  return fail(failure, fmt::format("{} of {} trainings failed: seed {}{}", results.failed.size(), seeds.count,
                                   fmt::join(failed, ", seed "),
                                   results.failed.size() > most_shown ? " and others" : ""));
}

/// Trains with --seed, the next number, and so on, each as one command with this seed would. A model that
/// cannot be written waits for room until all are trained.
int train_seeds(const CLI::App& given, const TrainSettings& first, Index count, UnwrittenFiles& unwritten) {
  const Seeds seeds = seeds_of(first, count);
  const std::vector<std::string> common = common_words(given);
  const std::string begun = first.resume ? settings_of_begun(seeds) : "";
  std::error_code ignored;
  if (!first.resume) std::filesystem::remove(seeds.folder / results_file, ignored);
  SeedsResults results;
  int code = success;
  for (Index i = 0; i < count; ++i) {
    CLI::App command;
    TrainSettings settings;
    settings.add_to(command);
    std::vector<std::string> words = common;
    words.push_back(fmt::format("--seed={}", seeds.seed(i)));
    words.push_back("--out=" + seeds.folder_of(i).string());
    if (first.resume && !seeds.was_begun(i)) {
      std::erase(words, "--resume=true");
      words.push_back(begun);
    }
    std::ranges::reverse(words);  // as CLI11 takes them
    command.parse(std::move(words));
    const auto add_failed = [&](const Error& error) {
      fmt::print("seed {} failed\n", seeds.seed(i));
      results.failed.emplace_back(seeds.seed(i), error.what());
    };
    try {
      unwritten.try_again();
      const Result result = train_once(command, settings, unwritten,
                                       OneOfSeveral{seeds.folder, seeds.to_go_on(),
                                                    fmt::format("{}seed {} ({} of {})\n", i > 0 ? "\n" : "",
                                                                seeds.seed(i), i + 1, count)});
      if (!result.results) return result.code;
      code = std::max(code, result.code);
      results.trainings.emplace_back(seeds.folder_of(i).filename().string(), *result.results);
    } catch (const DivergenceError& error) {
      add_failed(error);
    } catch (const FileError& error) {
      if (i == 0) throw;  // as data that are missing would end them all
      add_failed(error);
    }
  }
  return finish_seeds(results, seeds, unwritten, code);
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
      if (*seeds == 1) return train_alone(*command, *settings);
      return with_unwritten_files(
          [&](UnwrittenFiles& unwritten) { return train_seeds(*command, *settings, *seeds, unwritten); });
    };
  });
}

}  // namespace orthornn::program
