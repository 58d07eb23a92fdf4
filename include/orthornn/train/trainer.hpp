#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/optim/optimizer.hpp"
#include "orthornn/optim/schedule.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

struct TrainerOptions {
  OptimizerOptions optimizer = RmsProp{};
  Schedule schedule = {};
  /// Largest global norm of the gradient; 0 leaves it alone.
  double clip = 1;
};

/// What one training step did.
struct TrainingStep {
  /// Steps taken, this one included.
  std::int64_t step = 0;
  /// Of the batch, before the update.
  double loss = 0;
  /// Before clipping.
  double gradient_norm = 0;
  /// Factor of the learning rates at this step.
  double schedule_factor = 1;
};

/// Mean loss and accuracy of a model over a task's held-out data.
Evaluation evaluate(SequenceModel<float>& model, const Task& task);

/// Best evaluation of a training so far.
struct BestResult {
  double loss;
  std::int64_t step;
};

/// Trains a model on a task. All it knows between two steps is the model's parameters, the optimizer's
/// moments and the number of steps, which is also the state of every random stream: `Checkpoint` keeps just
/// these.
class Trainer {
 public:
  /// The model and the task must outlive it.
  Trainer(SequenceModel<float>& model, const Task& task, const TrainerOptions& options = {});

  /// One batch forward, backward and update; allocates nothing after the first. Throws ValueError when loss
  /// or gradient is not finite; the parameters are then as they were before the step.
  TrainingStep step();
  /// Steps until `steps` have been taken in all, or `report` returns false.
  void run(std::int64_t steps, const std::function<bool(const TrainingStep&)>& report);
  /// Evaluates on held-out data and remembers the best result.
  Evaluation evaluate();

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps);
  const std::optional<BestResult>& best() const { return best_; }
  void set_best(const BestResult& best) { best_ = best; }

  SequenceModel<float>& model() { return model_; }
  const SequenceModel<float>& model() const { return model_; }
  const Task& task() const { return task_; }
  const TrainerOptions& options() const { return options_; }
  Optimizer<float>& optimizer() { return *optimizer_; }

 private:
  SequenceModel<float>& model_;
  const Task& task_;
  TrainerOptions options_;
  std::unique_ptr<Optimizer<float>> optimizer_;
  std::int64_t steps_ = 0;
  std::optional<BestResult> best_;
  Batch batch_;
};

}  // namespace orthornn
