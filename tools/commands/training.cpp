#include "commands/training.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "commands/any_model.hpp"
#include "commands/evaluation.hpp"
#include "commands/machine.hpp"
#include "commands/progress.hpp"
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

Training::Training(CLI::App& command, const TrainSettings& settings, const Task& task,
                   const Execution& execution, UnwrittenFiles& unwritten)
    : settings_(settings), task_(task), saved_(settings.out), unwritten_(unwritten) {
  const std::filesystem::path folder = settings.out;
  as_usage([&] {
    const Progress reading("reading the data");
    task.load();
  });
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
    if (!goes_on_) {  // of the training that this one replaces
      std::filesystem::remove(results, status);
      remove_event_files(folder);
    }
    if (config_is_due) write_file_atomically(folder / "config.toml", config_of_run(config));
    if (sample_is_due) write_file_atomically(folder / sample_file, sample);
  }
  metrics_ = std::make_shared<MetricsFile>(folder / "metrics.csv", trainer_->steps(), task.metrics());
  if (trainer_->best()) failed_evaluations_ = metrics_->evaluations_after(trainer_->best()->step);
  if (settings.tensorboard && !nothing_is_left_)
    events_ = std::make_shared<EventLog>(folder, trainer_->steps());
}

/// The model before its first step, or undrawn where the parameters of a saved one follow.
std::unique_ptr<Model<float>> Training::first_model(const Execution& execution) {
  const AnyModelOptions options = settings_.model_options(task_);
  const std::optional<ExactNetwork> network = settings_.exact_network(task_);
  if (goes_on_) return make_model(execution, options, std::nullopt);
  if (!network) {
    auto model = make_model(execution, options, settings_.source.seed);
    if (!settings_.init_from.empty()) taken_ = take_parameters(settings_.init_from, *model);
    return model;
  }
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
  if (events_) write(events_->file(), [events = events_] { events->write(); });
}

bool Training::is_out_of_patience() const {
  return settings_.patience > 0 && failed_evaluations_ >= settings_.patience;
}

void Training::log_missing(const Evaluation& evaluation) {
  metrics_->add(evaluation);
  if (events_) events_->add(trainer_->steps(), evaluation);
  write_metrics();
}

void Training::log(const TrainingStep& step, std::optional<double> orthogonality_error,
                   const std::optional<Evaluation>& evaluation) {
  const double rate = std::visit([](const auto& o) { return o.lr; }, settings_.trainer.optimizer);
  const LoggedStep logged{.step = step,
                          .learning_rate = rate * step.schedule_factor,
                          .orthogonality_error = orthogonality_error,
                          .evaluation = evaluation,
                          .reflection_norm = reflection_norm(model_->parameters())};
  metrics_->add(logged);
  if (events_) events_->add(logged);
  write_metrics();
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
  TrainingEnd end;
  const auto evaluate = [&] {
    end.validation = trainer.evaluate(leave_if_stop_requested);
    if (is_best(trainer)) failed_evaluations_ = 0;
    end.solved = task_.solved(end.validation);
    return end.validation;
  };
  // 1. Before any step: the validation of a model that takes no steps, one that was interrupted, or one whose
  // outcome decides whether there are more steps.
  const bool untrained = settings_.steps() == 0 && !goes_on_;
  const bool missing = goes_on_ && is_evaluated(settings_, trainer.steps()) && !metrics_->has_evaluation();
  if (untrained) save(std::array{saved_.last});  // before an evaluation that may take minutes
  const bool may_be_solved = goes_on_ && settings_.until_solved && is_evaluated(settings_, trainer.steps());
  if (untrained || missing || nothing_is_left_ || may_be_solved || (goes_on_ && is_out_of_patience())) {
    const Evaluation evaluation = evaluate();
    if ((missing || !nothing_is_left_) && is_best(trainer)) save(std::array{saved_.best, saved_.last});
    if (missing && !is_best(trainer)) ++failed_evaluations_;
    if (missing) log_missing(evaluation);  // last, as it says that the validation is done
  }
  // 2. The steps.
  const auto is_solved = [&] { return settings_.until_solved && end.solved; };
  const auto ends_early = [&] {
    end.out_of_patience = !is_solved() && trainer.steps() < settings_.steps() && is_out_of_patience();
    return is_solved() || end.out_of_patience;
  };
  if (!ends_early()) {
    ProgressLine& progress =
        progress_.emplace(trainer.steps(), settings_.steps(), task_.baseline_loss(), place);
    trainer.run(settings_.steps(), [&](const TrainingStep& step) {
      const bool evaluated = is_evaluated(settings_, step.step);
      std::optional<Evaluation> evaluation;
      const bool stop = stops_in([&] {
        if (evaluated) {
          evaluation = evaluate();
          if (!is_best(trainer)) ++failed_evaluations_;
        } else {
          leave_if_stop_requested();
        }
      });
      const bool last = stop || step.step == settings_.steps() || (evaluation && ends_early());
      // An interruption adds no row. A validation that it leaves out is added to its row by the resumption.
      const bool row = step.step % settings_.log_every == 0 || evaluated;
      if (row || progress.due(row, last)) {
        // The error is of the parameters that the step has made, in every row. An evaluation has prepared
        // them, also one that is left.
        if (!evaluated) trainer.prepare();
        trainer.synchronize();
        const std::optional<double> error = model_->orthogonality_error();
        if (row) log(step, error, evaluation);
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
