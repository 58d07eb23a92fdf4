#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "commands/train_settings.hpp"
#include "commands/training_log.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn::program {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

/// While it lives, Ctrl-C and SIGTERM ask the training to save and stop; a second one ends the program at
/// once.
class StopOnSignal {
 public:
  StopOnSignal() {
    struct sigaction action {};
    action.sa_handler = [](int) { stop_requested = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~StopOnSignal() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

std::string describe(const Evaluation& evaluation, double baseline) {
  std::string text = fmt::format("held-out loss {:.4g}, a guesser has {:.4g}", evaluation.loss, baseline);
  if (evaluation.accuracy) text += fmt::format("; {:.2f} % right", 100 * *evaluation.accuracy);
  return text;
}

int train(CLI::App& command, TrainSettings& settings) {
  settings.complete(command);
  const Device device = settings.machine.apply();
  const std::filesystem::path folder = settings.out;
  const std::filesystem::path model_file = folder / "model.h5";
  if (!settings.resume && std::filesystem::exists(model_file)) {
    throw FileError(
        fmt::format("'{}' holds a trained model already: go on with it by --resume, or choose another --out",
                    folder.string()));
  }
  const std::unique_ptr<Task> task = settings.make_task();
  task->load();
  SequenceModel<float> model(device, settings.model_options(*task), settings.seed);
  Trainer trainer(model, *task, settings.trainer_options());
  if (settings.resume && std::filesystem::exists(model_file)) restore(model_file, trainer);

  std::error_code status;
  std::filesystem::create_directories(folder, status);
  if (status)
    throw FileError(
        fmt::format("cannot create the run directory '{}': {}", folder.string(), status.message()));
  write_file_atomically(folder / "config.toml", settings.to_toml(command));
  MetricsFile metrics(folder / "metrics.csv", trainer.steps());

  const auto& cell = model.cell(0);
  fmt::print("{} with {}: {} parameters, hidden size {}, {} form, batch {}, {} steps, device {}\n",
             task->name(), settings.cell, model.parameters().count(), settings.hidden,
             cell.transition().form(), settings.batch, settings.steps, to_string(device));
  if (trainer.steps() > 0) fmt::print("going on after step {}\n", trainer.steps());
  std::fflush(stdout);

  const double baseline = task->baseline_loss();
  const auto save = [&] { save_checkpoint(model_file, trainer, settings.seed); };
  ProgressLine progress(trainer.steps(), settings.steps, baseline);
  std::optional<Evaluation> last_evaluation;
  bool solved = false;
  StopOnSignal stop_on_signal;
  try {
    trainer.run(settings.steps, [&](const TrainingStep& step) {
      const bool last = step.step == settings.steps || stop_requested != 0;
      std::optional<Evaluation> evaluation;
      if ((step.step % settings.eval_every == 0 || step.step == settings.steps) && stop_requested == 0) {
        last_evaluation = evaluation = trainer.evaluate();
        solved = task->solved(*evaluation);
      }
      const bool enough = last || (settings.until_solved && solved);
      const bool row = step.step % settings.log_every == 0 || evaluation || enough;
      if (row || progress.due(row)) {
        const double error = model.orthogonality_error();
        if (row) metrics.write(step, settings.lr * step.schedule_factor, error, evaluation);
        if (enough || progress.due(row)) progress.print(step, error, evaluation);
      }
      if (enough || step.step % settings.save_every == 0) save();
      return !enough;
    });
  } catch (const Error&) {
    progress.finish();
    throw;
  }
  progress.finish();

  if (stop_requested != 0) {
    fmt::print(stderr, "orthornn: interrupted after step {}; '{}' is saved, go on with --resume --out {}\n",
               trainer.steps(), model_file.string(), folder.string());
    return interrupted;
  }
  if (!last_evaluation) last_evaluation = trainer.evaluate();
  solved = task->solved(*last_evaluation);
  fmt::print("{} after {} steps and {}: {}\n", solved ? "solved" : "trained", trainer.steps(),
             duration(metrics.seconds()), describe(*last_evaluation, baseline));
  fmt::print("model: {}\n", model_file.string());
  if (settings.until_solved && !solved) {
    fmt::print(stderr, "orthornn: not solved after {} steps; go on with --resume --steps {} --out {}\n",
               trainer.steps(), 2 * trainer.steps(), folder.string());
    return not_solved;
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
