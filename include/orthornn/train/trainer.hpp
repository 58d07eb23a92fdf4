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

/// How a training goes.
struct TrainerOptions {
  /// Most batches of a step.
  static constexpr double most_accumulated = 65536;

  /// Optimizer and its learning rates.
  OptimizerOptions optimizer = RmsProp{};
  /// Course of the learning rates.
  Schedule schedule = {};
  /// Largest global norm of the mean gradient, to which a longer one is shortened; 0 for no limit.
  double clip = 1;
  /// Number of batches K of a step. Step s = 0, 1, .. has the batches K s to K s + K - 1 of the task. Their
  /// gradients are added before clipping and the update.
  Index accumulate = 1;

  static void fields(auto&& visit) {
    visit("optimizer", &TrainerOptions::optimizer, domain::any, "Rule of an update");
    visit("schedule", &TrainerOptions::schedule, domain::any, "Course of the learning rates");
    visit("clip", &TrainerOptions::clip, domain::not_negative,
          "Largest global norm of the gradient, 0 for no limit");
    visit("accumulate", &TrainerOptions::accumulate,
          Domain{.low = 1, .high = most_accumulated, .may_be_missing = true},
          "Batches of a step, whose gradients are added before clipping and the update");
  }
};

class Hdf5Writer;
class Trainer;

/// Result of one training step. On a GPU the step is still under way when its `Trainer::step` returns: the
/// first call of `loss` or `gradient_norm` waits for it, and must come before the trainer's next step.
class TrainingStep {
 public:
  /// Number of steps taken, this one included.
  std::int64_t step = 0;
  /// Factor of the learning rates at this step.
  double schedule_factor = 1;

  /// Mean loss of all targets of the step, before the update. Throws as `Trainer::synchronize`, and
  /// ValueError where the trainer has begun its next step.
  double loss() const { return numbers().loss; }
  /// Norm of the mean gradient before clipping. Throws as `loss`.
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

/// Computes mean loss and accuracies of a model over held-out data of a task, with the parameters as they are
/// now. All targets count equally, whatever the sizes of their batches. `look`, where it is given, is called
/// after each batch with the batch and its loss; it makes each batch wait for a GPU. `before_batch`, where it
/// is given, is called before each batch, and may throw to leave the evaluation. Throws as the model and the
/// task, and as `check_forecast`.
Evaluation evaluate(Model<float>& model, const Task& task, HeldOut set,
                    const std::function<void(const Batch&, const BatchLoss&)>& look = {},
                    const std::function<void()>& before_batch = {});

/// Best evaluation of a training so far, by the loss of the validation data.
struct BestResult {
  double loss;        ///< Mean loss of the validation data.
  std::int64_t step;  ///< Number of steps that had been taken.
};

/// Error of a training that diverged: its loss, gradient or parameters are not finite, or its parameters are
/// not allowed.
class DivergenceError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Trains a model on a task. Between two steps, its state is the model's parameters, the optimizer's moments,
/// the number of steps, which is also the state of every random stream, and the best result.
/// `save_checkpoint` saves this state, and `restore` reads it.
class Trainer {
 public:
  /// Makes a trainer at step 0. The model and the task must outlive it. Throws ValueError for options outside
  /// their domains, and as `check_forecast`.
  Trainer(Model<float>& model, const Task& task, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Takes one step: forward and backward of `TrainerOptions::accumulate` batches, and an update. Allocates
  /// nothing after the first step of a batch's size. Throws as the model and the task, and DivergenceError
  /// when loss or gradient is not finite or parameters are not allowed; parameters are then as they were
  /// before the step, and the states that pieces carry (Model::carried) are gone. On a GPU it only starts the
  /// work, and `synchronize` throws these errors.
  TrainingStep step();
  /// Takes steps until `steps` have been taken in all, or `report`, called after each step, returns false.
  /// Then it calls `synchronize`. Throws as `step` and `synchronize`.
  void run(std::int64_t steps, const std::function<bool(const TrainingStep&)>& report);
  /// Waits for a GPU. Throws the error of a step that would have thrown on the CPU, once: parameters, moments
  /// and `steps()` are then as they were before that step, even where later steps were started. On the CPU,
  /// where steps throw at once, it does nothing.
  void synchronize();
  /// Prepares the model with the parameters that the last step has made, for what the model tells of them
  /// without a batch, as `Model::orthogonality_error`. Throws as `synchronize`, and DivergenceError where
  /// updates have made parameters that are not allowed.
  void prepare();
  /// Evaluates the model on the validation data and remembers the best result, the first one of the smallest
  /// finite loss. `before_batch` is called before each batch; where it throws, the trainer is as if it had
  /// not evaluated. Throws as `synchronize`, and DivergenceError where updates have made parameters that are
  /// not allowed.
  Evaluation evaluate(const std::function<void()>& before_batch = {});

  /// Number of steps taken; on a GPU, started.
  std::int64_t steps() const { return steps_; }
  /// Sets the number of steps taken, to go on from a checkpoint. Throws ValueError for a negative number.
  void set_steps(std::int64_t steps);
  /// Best result of `evaluate` so far; no value before the first finite one.
  const std::optional<BestResult>& best() const { return best_; }
  /// Sets the best result so far, to go on from a checkpoint.
  void set_best(const std::optional<BestResult>& best) { best_ = best; }

  /// Model that is trained.
  Model<float>& model() { return model_; }
  /// Model that is trained, to read.
  const Model<float>& model() const { return model_; }
  /// Task that the model is trained on.
  const Task& task() const { return task_; }
  /// Options that the trainer was made with.
  const TrainerOptions& options() const { return options_; }
  /// Optimizer with its moments.
  Optimizer<float>& optimizer() { return *optimizer_; }
  /// Optimizer with its moments, to read.
  const Optimizer<float>& optimizer() const { return *optimizer_; }

 private:
  friend class TrainingStep;
  friend void write_checkpoint(Hdf5Writer& writer, Trainer& trainer);
  struct Work;

  void prepare_model();
  void start_batch(Index part);
  void add_up(bool first, bool last);
  TensorView<const double> loss_of_step() const;
  void start_update(double schedule_factor);
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
