#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "commands/any_model.hpp"
#include "commands/interruption.hpp"
#include "commands/machine.hpp"
#include "commands/saved_training.hpp"
#include "commands/train_settings.hpp"
#include "commands/training_log.hpp"
#include "commands/translation_metrics.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn::program {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

/// While it lives, Ctrl-C, SIGTERM and SIGHUP (the terminal goes) ask the training to save and stop; a second
/// one ends the program at once.
class StopOnSignal {
 public:
  StopOnSignal() {
    struct sigaction action {};
    action.sa_handler = [](int) { stop_requested = 1; };
    // Restarted, a write to a pipe that is full goes on waiting; else it would fail, and the training with
    // it.
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
    sigaction(SIGHUP, &action, &hang_up_);
  }
  ~StopOnSignal() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
    sigaction(SIGHUP, &hang_up_, nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
  struct sigaction hang_up_ {};
};

/// Keeps a run directory to one training at a time, as long as it lives.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw FileError(
          fmt::format("cannot open the run directory '{}': {}", folder.string(), std::strerror(errno)));
    }
    // A file system without locks keeps nobody out.
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(descriptor_);
      throw FileError(fmt::format("another training is at work in '{}'; wait for it or choose another --out",
                                  folder.string()));
    }
  }
  ~FolderLock() { close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// A run directory may come from a stranger: what is written into it must not go through a link to another
/// file.
void check_run_files(const std::filesystem::path& folder) {
  for (const char* name : {"config.toml", "metrics.csv", "model.h5", "best.h5"}) {
    std::error_code ignored;
    const std::filesystem::path file = folder / name;
    const std::filesystem::file_status status = std::filesystem::symlink_status(file, ignored);
    if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) continue;
    throw FileError(fmt::format(
        "'{}' is a link, a folder or no regular file; expected a regular file or none: replace it by "
        "what it names, or choose another --out",
        file.string()));
  }
}

std::string describe(const Evaluation& evaluation) {
  std::string text = fmt::format("loss {:.4g}", evaluation.loss);
  if (evaluation.accuracy) text += fmt::format(", {:.2f} % right", 100 * *evaluation.accuracy);
  return text;
}

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

/// Mean length of all reflection vectors. It means nothing to the reflections, but the longer a vector, the
/// less a step turns it.
std::optional<double> reflection_norm(const ParameterSet<float>& parameters) {
  const Tensor<float> values = parameters.values().copy(Device::cpu());
  double sum = 0;
  Index count = 0;
  for (std::size_t i = 0; i < parameters.list().size(); ++i) {
    if (!parameters.list()[i].name.ends_with("/reflection_vectors")) continue;
    const TensorView<const float> vectors(values.data() + parameters.list()[i].offset,
                                          parameters.list()[i].shape);
    for (Index row = 0; row < vectors.shape()[0]; ++row, ++count) {
      double square = 0;
      for (const float x : vectors[row]) square += static_cast<double>(x) * x;
      sum += std::sqrt(square);
    }
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

/// Evaluates or saves: neither can be done with parameters that updates have made useless.
template <class Work>
auto unless_diverged(const Work& work) {
  try {
    return work();
  } catch (const ValueError& error) {
    throw ValueError(
        fmt::format("the training diverged: {}; try a smaller learning rate or --clip", error.what()));
  }
}

/// Makes what the settings describe: sizes and numbers that cannot be are wrong use.
template <class Make>
auto as_usage(const Make& make) {
  try {
    return make();
  } catch (const ValueError& error) {
    throw UsageError(error.what());
  } catch (const ShapeError& error) {
    throw UsageError(error.what());
  }
}

int train(CLI::App& command, TrainSettings& settings) {
  say_when_interrupted("interrupted before the first step, so nothing new is saved");
  const std::unique_ptr<Task> task = as_usage([&] { return settings.complete(command); });
  const Execution execution = settings.machine.apply(settings.source.batch);
  const std::filesystem::path folder = settings.out;
  const SavedTraining saved(folder);
  as_usage([&] { task->load(); });
  if (const auto* pairs = dynamic_cast<const TranslationTask*>(task.get())) {
    if (const std::string left_out = pairs->left_out(); !left_out.empty()) note(left_out);
  }
  check_run_files(folder);
  const bool goes_on = settings.resume && saved.exists();
  const auto owned_model = as_usage([&] {
    return make_model(execution, settings.model_options(*task),
                      goes_on ? std::nullopt : std::optional(settings.source.seed));
  });
  Model<float>& model = *owned_model;
  // Throws now what would be thrown within a step.
  const nlohmann::ordered_json cells = recurrences(model, task->length(), settings.source.batch);
  const auto owned_trainer =
      as_usage([&] { return std::make_unique<Trainer>(model, *task, settings.trainer); });
  Trainer& trainer = *owned_trainer;

  std::error_code status;
  std::filesystem::create_directories(folder, status);
  if (status)
    throw FileError(
        fmt::format("cannot create the run directory '{}': {}", folder.string(), status.message()));
  const FolderLock lock(folder);
  if (goes_on) {
    saved.resume(trainer);
  } else if (settings.resume) {
    fmt::print("'{}' has no model.h5 yet: starting anew with its settings\n", printable(folder.string()));
  }
  const bool nothing_left = goes_on && trainer.steps() >= settings.steps();
  // Settings with which no step is taken are not those of the run.
  if (!nothing_left) write_file_atomically(folder / "config.toml", settings.to_toml(command));
  MetricsFile metrics(folder / "metrics.csv", trainer.steps());

  const auto form = cells[0]["form"].get<std::string>();
  fmt::print("{} with {}: {} parameters, hidden size {}, {}batch {}, {} steps, on {}\n", task->name(),
             settings.cell_name(), model.parameters().count(), settings.hidden_size(),
             form.empty() ? "" : form + " form, ", settings.source.batch, settings.steps(),
             machine_text(execution));
  if (settings.verbose) print_recurrences(cells, execution, task->length(), settings.source.batch);
  if (trainer.steps() > 0) fmt::print("going on after step {}\n", trainer.steps());
  if (nothing_left)
    fmt::print("nothing is left to do: {} steps were asked for, {} are done\n", settings.steps(),
               trainer.steps());
  std::fflush(stdout);

  const double baseline = task->baseline_loss();
  const double learning_rate = std::visit([](const auto& o) { return o.lr; }, settings.trainer.optimizer);
  const auto save = [&](const std::filesystem::path& file) {
    trainer.synchronize();  // what this throws says all
    unless_diverged([&] { save_checkpoint(file, trainer); });
  };
  ProgressLine progress(trainer.steps(), settings.steps(), baseline);
  std::optional<Evaluation> last_evaluation;
  bool solved = false, stopped = false;
  std::optional<StopOnSignal> stop_on_signal(std::in_place);
  trainer.run(settings.steps(), [&](const TrainingStep& step) {
    const bool stop = stop_requested != 0;  // once: it may change at any time
    std::optional<Evaluation> evaluation;
    if (step.step % settings.eval_every == 0 || step.step == settings.steps()) {
      trainer.synchronize();
      last_evaluation = evaluation = unless_diverged([&] { return trainer.evaluate(); });
      solved = task->solved(*evaluation);
    }
    const bool enough = step.step == settings.steps() || (settings.until_solved && solved);
    stopped = stop && !enough;
    // An interruption adds no row: resumed, the training leaves what it would have left without.
    const bool row = step.step % settings.log_every == 0 || evaluation || enough;
    if (row || stopped || progress.due(row)) {
      trainer.synchronize();
      const std::optional<double> error = model.orthogonality_error();
      if (row) {
        metrics.write(step, learning_rate * step.schedule_factor, error, evaluation,
                      reflection_norm(model.parameters()));
      }
      if (enough || stopped || progress.due(row)) progress.print(step, error, evaluation);
    }
    // After the row, which a training that goes on from here does not write again.
    if (evaluation && trainer.best() && trainer.best()->step == step.step) save(saved.best);
    if (enough || stopped || step.step % settings.save_every == 0) save(saved.last);
    return !enough && !stopped;
  });
  progress.finish();
  // All is saved: from here on, a signal ends the program.
  stop_on_signal.reset();
  say_when_interrupted(
      "interrupted while evaluating; the training is saved, and eval prints what is missing");

  if (stopped) {
    return fail(interrupted,
                fmt::format("interrupted after step {}; '{}' is saved, go on with --resume --out {}",
                            trainer.steps(), saved.last.string(), folder.string()));
  }
  if (!last_evaluation) last_evaluation = trainer.evaluate();
  solved = task->solved(*last_evaluation);
  const std::int64_t steps = trainer.steps();
  fmt::print("{} after {} steps and {}: {} on validation data{}; a guesser has {:.4g}\n",
             solved ? "solved" : "trained", steps, duration(metrics.seconds()), describe(*last_evaluation),
             solved ? "" : ", not solved", baseline);
  print_translations(trainer, print_test_results(trainer, saved));
  if (settings.until_solved && !solved) {
    return fail(not_solved, fmt::format("not solved after {} steps; go on with --resume --steps {} --out {}",
                                        steps, 2 * steps, folder.string()));
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
