#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/nn/model.hpp"
#include "orthornn/optim/optimizer.hpp"
#include "orthornn/optim/schedule.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

struct TrainerOptions {
  OptimizerOptions optimizer = RmsProp{};
  Schedule schedule = {};
  /// Largest global norm of the gradient; 0 leaves it alone.
  double clip = 1;

  static void fields(auto&& visit) {
    visit("optimizer", &TrainerOptions::optimizer, domain::any, "Rule of an update");
    visit("schedule", &TrainerOptions::schedule, domain::any, "Course of the learning rates");
    visit("clip", &TrainerOptions::clip, domain::not_negative,
          "Largest global norm of the gradient, 0 for no limit");
  }
};

class Hdf5Writer;
class Trainer;

/// What one training step did. On a GPU the step is still under way when its `Trainer::step` returns: loss
/// and norm wait for it when they are first asked for, which must be before the trainer's next step.
class TrainingStep {
 public:
  /// Steps taken, this one included.
  std::int64_t step = 0;
  /// Factor of the learning rates at this step.
  double schedule_factor = 1;

  /// Of the batch, before the update. Both throw as `Trainer::synchronize`, and ValueError when they are
  /// asked for too late.
  double loss() const { return numbers().loss; }
  /// Before clipping.
  double gradient_norm() const { return numbers().gradient_norm; }

 private:
  friend class Trainer;
  struct Numbers {
    double loss;
    double gradient_norm;
  };

  const Numbers& numbers() const;

  Trainer* trainer_ = nullptr;
  mutable std::optional<Numbers> numbers_;
};

/// Mean loss and accuracy of a model over held-out data of a task. A target counts as much as any other,
/// whatever the size of its batch. `look`, where it is given, is called after each batch with the batch and
/// its loss; a GPU is then waited for each time. `before_batch` is called before each, and may throw to leave
/// the evaluation.
Evaluation evaluate(Model<float>& model, const Task& task, HeldOut set,
                    const std::function<void(const Batch&, const BatchLoss&)>& look = {},
                    const std::function<void()>& before_batch = {});

/// Best evaluation of a training so far, by the loss of the validation data.
struct BestResult {
  double loss;
  std::int64_t step;
};

/// A training whose loss, gradient or parameters are no longer finite, or no longer those of a model.
class DivergenceError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Trains a model on a task. All it knows between two steps is the model's parameters, the optimizer's
/// moments and the number of steps, which is also the state of every random stream: `Checkpoint` keeps just
/// these.
class Trainer {
 public:
  /// The model and the task must outlive it.
  Trainer(Model<float>& model, const Task& task, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// One batch forward, backward and update; allocates nothing after the first. Throws DivergenceError when
  /// loss or gradient is not finite; the parameters are then as they were before the step. On a GPU it only
  /// starts the work, and `synchronize` throws that.
  TrainingStep step();
  /// Steps until `steps` have been taken in all, or `report` returns false; then `synchronize`.
  void run(std::int64_t steps, const std::function<bool(const TrainingStep&)>& report);
  /// Waits for a GPU. Throws what a step would have thrown on the CPU, once, whatever was started after that
  /// step: parameters, moments and `steps()` are as they were before it. On the CPU nothing is left to wait
  /// for.
  void synchronize();
  /// Evaluates on the validation data and remembers the best result: the first of the smallest finite loss.
  /// Throws as `synchronize`, and DivergenceError where updates have made parameters invalid. `before_batch`
  /// is called before each batch; where it throws, the trainer is as if it had not evaluated.
  Evaluation evaluate(const std::function<void()>& before_batch = {});

  /// Steps taken; on a GPU, started.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps);
  const std::optional<BestResult>& best() const { return best_; }
  void set_best(const std::optional<BestResult>& best) { best_ = best; }

  Model<float>& model() { return model_; }
  const Model<float>& model() const { return model_; }
  const Task& task() const { return task_; }
  const TrainerOptions& options() const { return options_; }
  Optimizer<float>& optimizer() { return *optimizer_; }
  const Optimizer<float>& optimizer() const { return *optimizer_; }

 private:
  friend class TrainingStep;
  friend void write_checkpoint(Hdf5Writer& writer, Trainer& trainer);
  struct Work;

  void prepare_model();
  void start_step(double schedule_factor);
  TrainingStep::Numbers read_step();
  [[noreturn]] void throw_diverged(std::int64_t step, const std::string& how) const;

  Model<float>& model_;
  const Task& task_;
  TrainerOptions options_;
  std::unique_ptr<Optimizer<float>> optimizer_;
  std::int64_t steps_ = 0;
  std::optional<BestResult> best_;
  Batch batch_;
  /// Norm and factor of the gradients.
  Tensor<double> scale_;
  std::unique_ptr<Work> work_;
  /// Parts of the task of which a save has made the task again, to see that a load can.
  std::vector<TaskPart> readable_parts_;
};

}  // namespace orthornn
