#include "commands/training.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "commands/any_model.hpp"
#include "commands/machine.hpp"
#include "commands/run_files.hpp"
#include "commands/training_results.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "support/number_text.hpp"
#include "support/stop_on_signal.hpp"

namespace orthornn::program {
namespace {

/// Mean length of all reflection vectors. It means nothing to the reflections, but the longer a vector, the
/// less a step turns it.
std::optional<double> reflection_norm(const ParameterSet<float>& parameters) {
  double sum = 0;
  Index count = 0;
  Tensor<float> vectors;
  for (Index i = 0; i < std::ssize(parameters.list()); ++i) {
    if (!parameters.list()[static_cast<std::size_t>(i)].name.ends_with("/reflection_vectors")) continue;
    // These alone: a copy of all parameters from a GPU can take as long as many steps.
    const TensorView<const float> values = parameters.value(i);
    vectors.reserve(values.shape());
    copy<float>(values, vectors);
    for (Index row = 0; row < vectors.shape()[0]; ++row, ++count) {
      double square = 0;
      for (const float x : vectors.view()[row]) square += static_cast<double>(x) * x;
      sum += std::sqrt(square);
    }
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

/// Whether `work` was left as a stop was requested.
bool stops_in(const auto& work) {
  try {
    work();
    return false;
  } catch (const Interrupted&) {
    return true;
  }
}

/// Whether a validation is due after this step.
bool is_evaluated(const TrainSettings& settings, std::int64_t step) {
  return step % settings.eval_every == 0 || step == settings.steps();
}

/// Whether the validation after the step that was taken last is the best one.
bool is_best(const Trainer& trainer) { return trainer.best() && trainer.best()->step == trainer.steps(); }

}  // namespace

std::string describe(const Evaluation& evaluation) {
  std::string text = fmt::format("loss {:.4g}", evaluation.loss);
  return text + metrics_text(evaluation);
}

Training::FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) {
    throw FileError(
        fmt::format("cannot open the run directory '{}': {}", folder.string(), std::strerror(errno)));
  }
  // Where the file system has no locks, two trainings are not kept apart.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(descriptor_);
    throw FileError(fmt::format("another training is at work in '{}'; wait for it or choose another --out",
                                folder.string()));
  }
}

Training::FolderLock::~FolderLock() { close(descriptor_); }

Training::Training(CLI::App& command, const TrainSettings& settings, const Task& task,
                   const Execution& execution, UnwrittenFiles& unwritten)
    : settings_(settings), task_(task), saved_(settings.out), unwritten_(unwritten) {
  const std::filesystem::path folder = settings.out;
  as_usage([&] { task.load(); });
  check_run_files(folder);
  goes_on_ = settings.resume && saved_.exists();
  model_ = as_usage([&] { return first_model(execution); });
  // Throws now what would be thrown within a step.
  cells_ = recurrences(*model_, task.length(), settings.source.batch);
  TrainerOptions options = settings.trainer;
  if (settings.steps() == 0) options.schedule = {};  // a schedule of no steps
  trainer_ = as_usage([&] { return std::make_unique<Trainer>(*model_, task, options); });

  std::error_code status;
  std::filesystem::create_directories(folder, status);
  if (status)
    throw FileError(
        fmt::format("cannot create the run directory '{}': {}", folder.string(), status.message()));
  lock_.emplace(folder);
  const std::filesystem::path results = folder / results_file;
  check_replaceable_results(results, ResultsOf::training);
  check_own_metrics(folder);
  if (goes_on_) saved_.resume(*trainer_);
  nothing_is_left_ = goes_on_ && trainer_->steps() >= settings.steps();
  // Settings with which no step is taken are not those of the run.
  if (!nothing_is_left_) {
    const std::string config = settings.to_toml(command);
    const std::string sample = task.text_sample();
    // Both files are looked at before anything is changed.
    const bool config_is_due = writes_config(folder, config, goes_on_);
    const bool sample_is_due = !sample.empty() && writes_sample(folder, sample, goes_on_);
    if (!goes_on_) std::filesystem::remove(results, status);  // of the training that this one replaces
    if (config_is_due) write_file_atomically(folder / "config.toml", config_of_run(config));
    if (sample_is_due) write_file_atomically(folder / sample_file, sample);
  }
  metrics_ = std::make_shared<MetricsFile>(folder / "metrics.csv", trainer_->steps(), task.metrics());
}

/// The model before its first step, or undrawn where the parameters of a saved one follow.
std::unique_ptr<Model<float>> Training::first_model(const Execution& execution) const {
  const AnyModelOptions options = settings_.model_options(task_);
  const std::optional<ExactNetwork> network = settings_.exact_network(task_);
  if (goes_on_) return make_model(execution, options, std::nullopt);
  if (!network) return make_model(execution, options, settings_.source.seed);
  auto model = std::make_unique<SequenceModel<float>>(execution, std::get<ModelOptions>(options), Undrawn{});
  network->write(*model);
  return model;
}

void Training::save(std::span<const std::filesystem::path> files) {
  const auto writer = std::make_shared<Hdf5Writer>();
  write_checkpoint(*writer, *trainer_);
  for (const std::filesystem::path& file : files) write(file, [writer, file] { writer->commit(file); });
}

void Training::write_metrics() {
  write(metrics_->file(), [metrics = metrics_] { metrics->write(); });
}

void Training::write(const std::filesystem::path& file, std::function<void()> write) {
  unwritten_.write(file, std::move(write), [this] {
    if (progress_) progress_->finish();
  });
}

TrainingEnd Training::run(const ProgressPlace& place) {
  try {
    const TrainingEnd end = take_steps(place);
    progress_.reset();
    unwritten_.try_again();
    leave_if_stop_requested();
    return end;
  } catch (...) {
    progress_.reset();
    throw;
  }
}

TrainingEnd Training::take_steps(const ProgressPlace& place) {
  Trainer& trainer = *trainer_;
  const double learning_rate = std::visit([](const auto& o) { return o.lr; }, settings_.trainer.optimizer);
  TrainingEnd end;
  const auto evaluate = [&] {
    end.validation = trainer.evaluate(leave_if_stop_requested);
    end.solved = task_.solved(end.validation);
    return end.validation;
  };
  // 1. Before any step: the validation of a model that takes no steps, or one that was interrupted.
  const bool untrained = settings_.steps() == 0 && !goes_on_;
  const bool missing = goes_on_ && is_evaluated(settings_, trainer.steps()) && !metrics_->has_evaluation();
  if (untrained) save(std::array{saved_.last});  // before an evaluation that may take minutes
  if (untrained || missing || nothing_is_left_) {
    const Evaluation evaluation = evaluate();
    if ((untrained || missing) && is_best(trainer)) save(std::array{saved_.best, saved_.last});
    if (missing) {  // last, as it says that the validation is done
      metrics_->add(evaluation);
      write_metrics();
    }
  }
  // 2. The steps.
  if (!settings_.until_solved || !end.solved) {
    ProgressLine& progress =
        progress_.emplace(trainer.steps(), settings_.steps(), task_.baseline_loss(), place);
    trainer.run(settings_.steps(), [&](const TrainingStep& step) {
      const bool evaluated = is_evaluated(settings_, step.step);
      std::optional<Evaluation> evaluation;
      const bool stop = stops_in([&] {
        // An evaluation prepares the parameters before it is left. The row needs them prepared.
        if (evaluated) {
          evaluation = evaluate();
        } else {
          leave_if_stop_requested();
        }
      });
      const bool last = stop || step.step == settings_.steps() || (settings_.until_solved && end.solved);
      // An interruption adds no row. A validation that it leaves out is added to its row by the resumption.
      const bool row = step.step % settings_.log_every == 0 || evaluated;
      if (row || progress.due(row, last)) {
        trainer.synchronize();
        const std::optional<double> error = model_->orthogonality_error();
        if (row) {
          metrics_->add(step, learning_rate * step.schedule_factor, error, evaluation,
                        reflection_norm(model_->parameters()));
          write_metrics();
        }
        if (progress.due(row, last)) progress.print(step, error, evaluation);
      }
      // After the row, which a training that goes on from here does not write again.
      std::vector<std::filesystem::path> files;
      if (evaluation && is_best(trainer)) files.push_back(saved_.best);
      if (last || step.step % settings_.save_every == 0) files.push_back(saved_.last);
      if (!files.empty()) save(files);
      return !last;
    });
  }
  return end;
}

}  // namespace orthornn::program
