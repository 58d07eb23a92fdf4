#include "orthornn/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/set_zero.hpp"
#include "linalg/elementwise.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/optim/gradient_scale.hpp"
#include "train/step_record.hpp"

namespace orthornn {
namespace {

/// Other columns of metrics.csv, and other keys where the program writes metrics in JSON; each between
/// blanks.
constexpr std::string_view taken_names =
    " absolute_and_squared_error baseline beam best bleu cells chrf cross_entropy cross_entropy_with_padding "
    "device "
    "evaluation_loss gpu gradient_norm last learning_rate length length_penalty lengths loss "
    "mean_squared_error metrics model orthogonality_error perplexity_with_padding "
    "precision processor reflection_norm sample seconds seed sentences solved step steps "
    "task test threads validation ";

/// Throws ValueError for names that a metric cannot have (Metric::name).
void check_metrics(const Task& task, const std::vector<Metric>& metrics) {
  std::set<std::string> seen;
  for (const Metric& metric : metrics) {
    const std::string& name = metric.name;
    const bool plain = !name.empty() && name.size() <= 40 && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (!plain) {
      throw ValueError(fmt::format(
          "the task {} has a metric '{}'; expected a name of 1 to 40 characters a to z, 0 to 9 and _",
          task.name(), name));
    }
    if (taken_names.find(" " + name + " ") != std::string_view::npos || !seen.insert(name).second) {
      throw ValueError(
          fmt::format("the task {} has a metric '{}', which is the name of another column of metrics.csv "
                      "or key in JSON; expected a name of its own",
                      task.name(), name));
    }
  }
}

/// What an evaluation counts in, kept so that the next one takes no memory.
struct EvaluationMemory {
  /// Throws ValueError where the model and the task do not fit one another.
  EvaluationMemory(const Model<float>& model, const Task& task)
      : metrics(task.metrics()),
        batch(model.device()),
        loss(Shape{2}, model.device()),
        sums(task.counters(), model.device()) {
    check_metrics(task, metrics);
    // Other models need not wait for data that a task may have to read.
    if (model.reads_ahead()) check_forecast(task.data(), true);
  }

  std::vector<Metric> metrics;
  Batch batch;
  /// A BatchLoss over all batches.
  Tensor<double> loss;
  /// As `Task::count_metrics` adds to it.
  Tensor<double> sums;
  /// States that the model carried before.
  std::vector<Tensor<float>> carried = {};
};

/// Calls `evaluation`, and then gives the model back the states that it carried: the next piece of training
/// sequences starts where the piece before it ended, not where held-out sequences did.
void keep_carried(Model<float>& model, std::vector<Tensor<float>>& kept,
                  const std::function<void()>& evaluation) {
  while (kept.size() < model.carried().size()) kept.emplace_back(Shape{0}, model.device());
  kept.resize(model.carried().size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i].reserve(model.carried()[i].shape());
    copy<float>(model.carried()[i], kept[i].view());
  }
  try {
    evaluation();
  } catch (...) {
    model.set_carried(kept);
    throw;
  }
  model.set_carried(kept);
}

/// Of a prepared model.
Evaluation evaluate_with(EvaluationMemory& memory, Model<float>& model, const Task& task, HeldOut set,
                         const std::function<void(const Batch&, const BatchLoss&)>& look,
                         const std::function<void()>& before_batch) {
  const FaultDomain::Scope scope(model.faults());
  set_zero(memory.loss.view());
  set_zero(memory.sums.view());
  keep_carried(model, memory.carried, [&] {
    for (Index i = 0; i < task.evaluation_batches(set); ++i) {
      if (before_batch) before_batch();
      task.evaluation_batch(set, i, memory.batch);
      model.loss_of_prepared(memory.batch);
      add<double>(columns_of(model.last_loss()), columns_of(memory.loss));
      if (!memory.metrics.empty()) task.count_metrics(model.outputs(), memory.batch, memory.sums.view());
      if (look) look(memory.batch, model.read_loss());
    }
  });
  const Tensor<double> loss = memory.loss.copy(Device::cpu());
  Evaluation result{.loss = BatchLoss{.sum = loss(0), .count = loss(1)}.mean()};
  const Tensor<double> sums = memory.sums.copy(Device::cpu());
  const std::vector<double> values = task.metric_values(sums, result.loss);
  if (values.size() != memory.metrics.size()) {
    throw ValueError(fmt::format("the task {} has {} metrics and made {} values; expected one for each",
                                 task.name(), memory.metrics.size(), values.size()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) result.metrics.push_back({memory.metrics[i], values[i]});
  return result;
}

// Shapes of batches whose steps are kept as graphs. Translation (118,964 pairs, batches of 128) has 85 shapes
// in the 837 batches of an epoch, 109 in ten epochs.
constexpr std::size_t most_shapes = 128;

std::string not_finite(double loss, double gradient_norm) {
  // A NaN may have a sign, which says nothing.
  const auto text = [](double x) { return std::isnan(x) ? std::string("nan") : fmt::format("{}", x); };
  return fmt::format("loss {}, gradient norm {}", text(loss), text(gradient_norm));
}

}  // namespace

Evaluation evaluate(Model<float>& model, const Task& task, HeldOut set,
                    const std::function<void(const Batch&, const BatchLoss&)>& look,
                    const std::function<void()>& before_batch) {
  EvaluationMemory memory(model, task);
  model.prepare();
  return evaluate_with(memory, model, task, set, look, before_batch);
}

/// What a training keeps on its device.
struct Trainer::Work {
  /// `accumulate`: batches of a step.
  Work(const Model<float>& model, const Task& task, Index accumulate)
      : record(Shape{1}, model.device()),
        gradients(Shape{accumulate > 1 ? model.parameters().count() : 0}, model.device()),
        loss(Shape{2}, model.device()),
        // The first batch of a step, the last one and those between do not do the same.
        recorded(most_shapes * static_cast<std::size_t>(std::min<Index>(accumulate, 3))),
        evaluation(model, task) {
    set_zero(record.view());
  }

  Tensor<StepRecord> record;
  /// Sums over the batches of a step so far, where it has several.
  Tensor<float> gradients;
  Tensor<double> loss;
  /// Forward and backward, where the model is recordable, by the places of the batch. A model that leaves
  /// shapes on the host (Model::has_shapes_of) has a graph while the shape stays.
  RecordedLoops recorded;
  EvaluationMemory evaluation;
};

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

Trainer::Trainer(Model<float>& model, const Task& task, const TrainerOptions& options)
    : model_(model),
      task_(task),
      options_(options),
      optimizer_(make_optimizer<float>(options.optimizer, model.parameters())),
      batch_(model.device()),
      scale_(Shape{2}, model.device()),
      work_(std::make_unique<Work>(model, task, options.accumulate)) {
  options.schedule.validate();
  check_fields("trainer", options);
}

Trainer::~Trainer() = default;

TrainingStep Trainer::step() {
  TrainingStep result;
  result.schedule_factor = options_.schedule.factor(steps_);
  for (Index part = 0; part < options_.accumulate; ++part) start_batch(part);
  start_update(result.schedule_factor);
  result.step = ++steps_;
  result.trainer_ = this;
  // The CPU has done the step, so what is wrong with it is thrown now.
  if (!model_.device().is_cuda()) result.numbers_ = read_step();
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

/// Starts forward and backward of a batch of the step. After the last one the model has the gradients of all.
void Trainer::start_batch(Index part) {
  const auto batches = static_cast<std::uint64_t>(options_.accumulate);
  const std::uint64_t number =
      static_cast<std::uint64_t>(steps_) * batches + static_cast<std::uint64_t>(part);
  const bool first = part == 0, last = part + 1 == options_.accumulate;
  task_.training_batch(number, batch_);
  const FaultDomain::Scope scope(model_.faults());
  RandomStream noise(task_.seed(), RandomPurpose::dropout, number);
  const std::uint64_t high = noise.bits();
  model_.set_noise(high << 32 | noise.bits());
  const auto compute = [&] {
    if (first) prepare_model();
    model_.loss_and_gradient_of_prepared(batch_);
    if (options_.accumulate > 1) add_up(first, last);
    if (last) gradient_scale<float>(model_.parameters().gradients(), loss_of_step(), options_.clip, scale_);
  };
  if (model_.device().is_cuda() && model_.recordable(batch_)) {
    RecordedLoops::Key places = batch_.places();
    places.push_back(first);
    places.push_back(last);
    // The model has met another batch last, here or between the steps.
    if (!model_.has_shapes_of(batch_)) work_->recorded.forget(places);
    work_->recorded.run(model_.device(), std::move(places), compute);
  } else {
    compute();
  }
}

/// Adds gradients and loss of a batch to those of the step, which the model's gradients are after the last.
void Trainer::add_up(bool first, bool last) {
  copy_or_add<double>(model_.last_loss(), work_->loss.view(), !first);
  Tensor<float>& of_batch = model_.parameters().gradients();
  if (last) {
    add<float>(columns_of(std::as_const(work_->gradients)), columns_of(of_batch));
  } else {
    copy_or_add<float>(of_batch, work_->gradients.view(), !first);
  }
}

TensorView<const double> Trainer::loss_of_step() const {
  return options_.accumulate > 1 ? work_->loss.view() : model_.last_loss();
}

/// Starts the update. Whether it changes anything is decided on the device, by the record.
void Trainer::start_update(double schedule_factor) {
  const FaultDomain::Scope scope(model_.faults());
  orthornn::record_step(steps_ + 1, loss_of_step(), scale_, work_->record);
  const TensorView<const std::int64_t> diverged(&work_->record.data()->diverged_step, Shape{1},
                                                model_.device());
  optimizer_->step(
      model_.parameters(),
      {.schedule_factor = schedule_factor, .gradient_scale = scale_.view().slice(1, 1), .halted = diverged});
}

TrainingStep::Numbers Trainer::read_step() {
  const FaultDomain::Scope scope(model_.faults());
  StepRecord record{};
  try {
    copy<StepRecord>(work_->record, TensorView<StepRecord>(&record, Shape{1}));
  } catch (const ValueError&) {
    // The copy succeeded; the record, where it has a fault, also knows its step.
    if (record.diverged_step == 0) throw;
  }
  if (record.diverged_step == 0) return {record.loss, record.gradient_norm};

  const std::int64_t last_good = record.diverged_step - 1;
  optimizer_->set_steps(optimizer_->steps() - (steps_ - last_good));
  set_steps(last_good);
  model_.set_carried({});  // they are those of the step that diverged
  const std::optional<StepFault> fault = fault_of(record);
  if (!fault) throw_diverged(record.diverged_step, not_finite(record.loss, record.gradient_norm));
  // What `prepare` finds wrong, an update has made of the parameters; the rest is the batch's fault.
  if (!fault->of_parameters) throw ValueError(fault->message);
  throw_diverged(record.diverged_step, fault->message);
}

void Trainer::throw_diverged(std::int64_t step, const std::string& how) const {
  throw DivergenceError(
      fmt::format("the training diverged at step {}: {}; try a smaller learning rate or --clip", step, how));
}

void Trainer::synchronize() { read_step(); }

void Trainer::run(std::int64_t steps, const std::function<bool(const TrainingStep&)>& report) {
  while (steps_ < steps) {
    if (!report(step())) break;
  }
  synchronize();
}

void Trainer::prepare() {
  synchronize();
  try {
    model_.prepare();
    model_.synchronize();  // a GPU reports invalid parameters only when it is waited for
  } catch (const ValueError& error) {
    if (steps_ == 0) throw;  // no update has made them so
    throw_diverged(steps_, error.what());
  }
}

Evaluation Trainer::evaluate(const std::function<void()>& before_batch) {
  prepare();
  const Evaluation result =
      evaluate_with(work_->evaluation, model_, task_, HeldOut::validation, {}, before_batch);
  if (std::isfinite(result.loss) && (!best_ || result.loss < best_->loss))
    best_ = BestResult{result.loss, steps_};
  return result;
}

void Trainer::set_steps(std::int64_t steps) {
  if (steps < 0) throw ValueError(fmt::format("{} training steps; expected 0 or more", steps));
  steps_ = steps;
  set_zero(work_->record.view());
}

}  // namespace orthornn
