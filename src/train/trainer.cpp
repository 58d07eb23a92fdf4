#include "orthornn/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orthornn/core/error.hpp"
#include "orthornn/optim/gradient_clipping.hpp"

namespace orthornn {

Evaluation evaluate(SequenceModel<float>& model, const Task& task) {
  Batch batch;
  double loss = 0;
  Score score;
  bool scored = false;
  double targets = 0;
  for (Index i = 0; i < task.evaluation_batches(); ++i) {
    task.evaluation_batch(i, batch);
    // A batch's loss is the mean over its targets that count.
    const double counted = batch.classes.empty()
                               ? static_cast<double>(batch.values.size())
                               : static_cast<double>(std::count_if(batch.classes.begin(), batch.classes.end(),
                                                                   [](std::int32_t c) { return c >= 0; }));
    const TensorView<const float> outputs = model.forward(batch);
    // Scored before the loss, which works in place.
    if (const std::optional<Score> part = task.score(outputs, batch)) {
      score.correct += part->correct;
      score.count += part->count;
      scored = true;
    }
    loss += model.loss_of_last_outputs(batch) * counted;
    targets += counted;
  }
  Evaluation result{.loss = loss / targets, .accuracy = std::nullopt};
  if (scored) result.accuracy = static_cast<double>(score.correct) / static_cast<double>(score.count);
  return result;
}

Trainer::Trainer(SequenceModel<float>& model, const Task& task, const TrainerOptions& options)
    : model_(model),
      task_(task),
      options_(options),
      optimizer_(make_optimizer<float>(options.optimizer, model.parameters())) {
  options.schedule.validate();
  if (!(options.clip >= 0)) throw ValueError(fmt::format("clip is {}; expected 0 or more", options.clip));
}

TrainingStep Trainer::step() {
  task_.training_batch(static_cast<std::uint64_t>(steps_), batch_);
  TrainingStep result;
  try {
    model_.prepare();
  } catch (const ValueError& error) {
    throw ValueError(
        fmt::format("the training diverged at step {}: {}; try a smaller learning rate or --clip", steps_ + 1,
                    error.what()));
  }
  result.loss = model_.loss_and_gradient_of_prepared(batch_);
  result.gradient_norm = clip_by_global_norm<float>(model_.parameters().gradients(), options_.clip);
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) {
    throw ValueError(fmt::format(
        "the training diverged at step {}: loss {}, gradient norm {}; try a smaller learning rate or --clip",
        steps_ + 1, result.loss, result.gradient_norm));
  }
  result.schedule_factor = options_.schedule.factor(steps_);
  optimizer_->step(model_.parameters(), result.schedule_factor);
  result.step = ++steps_;
  return result;
}

void Trainer::run(std::int64_t steps, const std::function<bool(const TrainingStep&)>& report) {
  while (steps_ < steps) {
    if (!report(step())) return;
  }
}

Evaluation Trainer::evaluate() {
  const Evaluation result = orthornn::evaluate(model_, task_);
  if (!best_ || !(result.loss >= best_->loss)) best_ = BestResult{result.loss, steps_};
  return result;
}

void Trainer::set_steps(std::int64_t steps) {
  if (steps < 0) throw ValueError(fmt::format("{} training steps; expected 0 or more", steps));
  steps_ = steps;
}

}  // namespace orthornn
