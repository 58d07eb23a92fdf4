#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "commands/interruption.hpp"
#include "commands/machine.hpp"
#include "commands/training.hpp"
#include "commands/translation_metrics.hpp"

namespace orthornn::program {
namespace {

/// Figures of the test data, which nothing of the training has seen, for the last model and the best. The
/// trainer has the best one afterwards, and its figures are returned.
TestEvaluation print_test_results(Trainer& trainer, const SavedTraining& saved) {
  const auto print = [&](const char* which, const std::filesystem::path& file) {
    const TestEvaluation tested = evaluate_test_data(trainer.model(), trainer.task());
    fmt::print("test data: {}, {} step {}: {}\n", describe(tested.of_targets), which, trainer.steps(),
               printable(file.string()));
    return tested;
  };
  const TestEvaluation of_last = print("model of", saved.last);
  if (!trainer.best() || trainer.best()->step == trainer.steps()) return of_last;
  try {
    restore(saved.best, trainer);
  } catch (const FileError& error) {
    note(fmt::format("the best model cannot be evaluated: {}", error.what()));
    return of_last;
  }
  return print("best on validation data,", saved.best);
}

/// What the trainer's model, as it is now, is worth as a translator; `tested` is of this model.
void print_translations(Trainer& trainer, const TestEvaluation& tested) {
  const auto* pairs = dynamic_cast<const TranslationTask*>(&trainer.task());
  auto* model = dynamic_cast<EncoderDecoder<float>*>(&trainer.model());
  if (pairs == nullptr || model == nullptr) return;
  const BeamSearchOptions search;
  fmt::print("translations of the model of step {}:\n", trainer.steps());
  print_metrics(translation_metrics(*model, *pairs, tested, search, 3), search);
}

int train(CLI::App& command, TrainSettings& settings) {
  say_when_interrupted("interrupted before the first step, so nothing new is saved");
  const std::unique_ptr<Task> task = as_usage([&] { return settings.complete(command); });
  const Execution execution = settings.machine.apply(settings.source.batch);
  const std::string folder = settings.out;
  Training training(command, settings, *task, execution);
  Trainer& trainer = training.trainer();
  if (const auto* pairs = dynamic_cast<const TranslationTask*>(task.get())) {
    if (const std::string left_out = pairs->left_out(); !left_out.empty()) note(left_out);
  }
  if (training.starts_anew())
    fmt::print("'{}' has no model.h5 yet: starting anew with its settings\n", printable(folder));
  const auto form = training.cells()[0]["form"].get<std::string>();
  fmt::print("{} with {}: {} parameters, hidden size {}, {}batch {}, {} steps, on {}\n", task->name(),
             settings.cell_name(), trainer.model().parameters().count(), settings.hidden_size(),
             form.empty() ? "" : form + " form, ", settings.source.batch, settings.steps(),
             machine_text(execution));
  if (settings.verbose) print_recurrences(training.cells(), execution, task->length(), settings.source.batch);
  if (trainer.steps() > 0) fmt::print("going on after step {}\n", trainer.steps());
  if (training.nothing_is_left())
    fmt::print("nothing is left to do: {} steps were asked for, {} are done\n", settings.steps(),
               trainer.steps());
  std::fflush(stdout);

  // Not within the steps, which stop and save.
  say_when_interrupted(
      "interrupted while evaluating; the training is saved, and eval prints what is missing");
  const TrainingEnd end = training.run();
  const std::int64_t steps = trainer.steps();
  if (end.stopped) {
    return fail(interrupted,
                fmt::format("interrupted after step {}; '{}' is saved, go on with --resume --out {}", steps,
                            training.saved().last.string(), folder));
  }
  fmt::print("{} after {} steps and {}: {} on validation data{}; a guesser has {:.4g}\n",
             end.solved ? "solved" : "trained", steps, duration(training.seconds()), describe(end.validation),
             end.solved ? "" : ", not solved", task->baseline_loss());
  print_translations(trainer, print_test_results(trainer, training.saved()));
  if (settings.until_solved && !end.solved) {
    return fail(not_solved, fmt::format("not solved after {} steps; go on with --resume --steps {} --out {}",
                                        steps, 2 * steps, folder));
  }
  return success;
}

}  // namespace

void add_train(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("train", "Train a model on a task");
  const auto settings = std::make_shared<TrainSettings>();
  settings->add_to(*command);
  command->callback(
      [&chosen, command, settings] { chosen = [command, settings] { return train(*command, *settings); }; });
}

}  // namespace orthornn::program
