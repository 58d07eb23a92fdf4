#include "orthornn/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/set_zero.hpp"
#include "cuda/train/step_record.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/repeated_operations.hpp"
#include "orthornn/optim/gradient_clipping.hpp"

namespace orthornn {

namespace {

/// `batch` is scratch on the model's device.
Evaluation evaluate_through(Batch& batch, SequenceModel<float>& model, const Task& task, HeldOut set) {
  const FaultDomain::Scope scope(model.faults());
  const bool on_gpu = model.device().is_cuda();
  // What counts right answers does so on the host.
  Batch copied_batch;
  Tensor<float> copied_outputs;
  double loss = 0;
  double targets = 0;
  Score score;
  bool scored = false;
  for (Index i = 0; i < task.evaluation_batches(set); ++i) {
    task.evaluation_batch(set, i, batch);
    if (on_gpu) copied_batch = batch.copy(Device::cpu());
    TensorView<const float> outputs = model.forward(batch);
    if (on_gpu) {
      copied_outputs.reserve(outputs.shape());
      copy<float>(outputs, copied_outputs);
      outputs = copied_outputs;
    }
    // Scored before the loss, which works in place.
    if (const std::optional<Score> part = task.score(outputs, on_gpu ? copied_batch : batch)) {
      score.correct += part->correct;
      score.count += part->count;
      scored = true;
    }
    const BatchLoss part = model.loss_of_last_outputs(batch);
    loss += part.mean * part.count;
    targets += part.count;
  }
  Evaluation result{.loss = loss / targets, .accuracy = std::nullopt};
  if (scored) result.accuracy = static_cast<double>(score.correct) / static_cast<double>(score.count);
  return result;
}

}  // namespace

Evaluation evaluate(SequenceModel<float>& model, const Task& task, HeldOut set) {
  Batch batch(model.device());
  return evaluate_through(batch, model, task, set);
}

/// What a training keeps on its GPU.
struct Trainer::OnDevice {
  Tensor<double> gradient_norm;
  Tensor<cuda::StepRecord> record;
  /// Forward and backward, where the model is recordable.
  RepeatedOperations work;
  /// Of the batch that `work` was last.
  Batch::Shapes batch_shapes;
};

namespace {

std::string not_finite(double loss, double gradient_norm) {
  // A NaN may have a sign, which says nothing.
  const auto text = [](double x) { return std::isnan(x) ? std::string("nan") : fmt::format("{}", x); };
  return fmt::format("loss {}, gradient norm {}", text(loss), text(gradient_norm));
}

}  // namespace

const TrainingStep::Numbers& TrainingStep::numbers() const {
  if (!numbers_) {
    if (trainer_ == nullptr) throw ValueError("a training step that no trainer took has no numbers");
    if (trainer_->steps() != step) {
      throw ValueError(fmt::format(
          "loss and gradient norm of step {} are gone: they must be asked for before the next step, "
          "and {} have been taken",
          step, trainer_->steps()));
    }
    numbers_ = trainer_->read_step();
  }
  return *numbers_;
}

Trainer::Trainer(SequenceModel<float>& model, const Task& task, const TrainerOptions& options)
    : model_(model),
      task_(task),
      options_(options),
      optimizer_(make_optimizer<float>(options.optimizer, model.parameters())),
      batch_(model.device()),
      evaluation_batch_(model.device()) {
  options.schedule.validate();
  check_fields("trainer", options);
  if constexpr (has_cuda_bodies) {
    const Device device = model.device();
    if (!device.is_cuda()) return;
    on_device_ = std::make_unique<OnDevice>(OnDevice{.gradient_norm = Tensor<double>(Shape{1}, device),
                                                     .record = Tensor<cuda::StepRecord>(Shape{1}, device),
                                                     .work = RepeatedOperations(device),
                                                     .batch_shapes = {}});
  }
}

Trainer::~Trainer() = default;

TrainingStep Trainer::step() {
  task_.training_batch(static_cast<std::uint64_t>(steps_), batch_);
  TrainingStep result;
  result.schedule_factor = options_.schedule.factor(steps_);
  if (on_device_) {
    step_on_device(result.schedule_factor);
  } else {
    result.numbers_ = step_on_host(result.schedule_factor);
  }
  result.step = ++steps_;
  result.trainer_ = this;
  return result;
}

void Trainer::prepare_model() {
  try {
    model_.prepare();
  } catch (const ValueError& error) {
    synchronize();  // an earlier step may be to blame
    throw_diverged(steps_ + 1, error.what());
  }
}

TrainingStep::Numbers Trainer::step_on_host(double schedule_factor) {
  prepare_model();
  TrainingStep::Numbers result{};
  model_.loss_and_gradient_of_prepared(batch_);
  result.loss = model_.last_loss()(0);
  result.gradient_norm = clip_by_global_norm<float>(model_.parameters().gradients(), options_.clip);
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) {
    throw_diverged(steps_ + 1, not_finite(result.loss, result.gradient_norm));
  }
  optimizer_->step(model_.parameters(), schedule_factor);
  return result;
}

/// Enqueues the step. Whether it may change anything is decided there, by the record.
void Trainer::step_on_device(double schedule_factor) {
  if constexpr (has_cuda_bodies) {
    const FaultDomain::Scope scope(model_.faults());
    OnDevice& gpu = *on_device_;
    const auto compute = [&] {
      prepare_model();
      model_.loss_and_gradient_of_prepared(batch_);
      clip_by_global_norm<float>(model_.parameters().gradients(), options_.clip, gpu.gradient_norm);
    };
    if (model_.recordable(batch_)) {
      // The model may have met other batches since, between the steps.
      if (batch_.shapes() != gpu.batch_shapes || !model_.has_shapes_of(batch_)) {
        gpu.work.forget();
        gpu.batch_shapes = batch_.shapes();
      }
      gpu.work.run(compute);
    } else {
      compute();
    }
    cuda::record_step(steps_ + 1, model_.last_loss(), gpu.gradient_norm, gpu.record);
    const TensorView<const std::int64_t> diverged(&gpu.record.data()->diverged_step, Shape{1},
                                                  model_.device());
    optimizer_->step(model_.parameters(), schedule_factor, diverged);
  }
}

TrainingStep::Numbers Trainer::read_step() {
  if constexpr (has_cuda_bodies) {
    const FaultDomain::Scope scope(model_.faults());
    cuda::StepRecord record{};
    try {
      copy<cuda::StepRecord>(on_device_->record, TensorView<cuda::StepRecord>(&record, Shape{1}));
    } catch (const ValueError&) {
      // The copy succeeded; the record, where it has a fault, also knows its step.
      if (record.diverged_step == 0) throw;
    }
    if (record.diverged_step == 0) return {record.loss, record.gradient_norm};

    const std::int64_t last_good = record.diverged_step - 1;
    optimizer_->set_steps(optimizer_->steps() - (steps_ - last_good));
    set_steps(last_good);
    try {
      cuda::throw_fault(record.fault);
    } catch (const ValueError& error) {
      // What `prepare` finds wrong, an update has made of the parameters; the rest is the batch's fault.
      if (!cuda::is_of_parameters(record.fault)) throw;
      throw_diverged(record.diverged_step, error.what());
    }
    throw_diverged(record.diverged_step, not_finite(record.loss, record.gradient_norm));
  }
  return {};
}

void Trainer::throw_diverged(std::int64_t step, const std::string& how) const {
  throw ValueError(
      fmt::format("the training diverged at step {}: {}; try a smaller learning rate or --clip", step, how));
}

void Trainer::synchronize() {
  if (on_device_) read_step();
}

void Trainer::run(std::int64_t steps, const std::function<bool(const TrainingStep&)>& report) {
  while (steps_ < steps) {
    if (!report(step())) break;
  }
  synchronize();
}

Evaluation Trainer::evaluate() {
  synchronize();
  const Evaluation result = evaluate_through(evaluation_batch_, model_, task_, HeldOut::validation);
  if (std::isfinite(result.loss) && (!best_ || result.loss < best_->loss))
    best_ = BestResult{result.loss, steps_};
  return result;
}

void Trainer::set_steps(std::int64_t steps) {
  if (steps < 0) throw ValueError(fmt::format("{} training steps; expected 0 or more", steps));
  steps_ = steps;
  if (on_device_) set_zero(on_device_->record.view());
}

}  // namespace orthornn
