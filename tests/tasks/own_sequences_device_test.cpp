// Trainings of own sequences on a GPU, beside those of the CPU.

#include <array>
#include <string>

#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/data_task.hpp"
#include "orthornn/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/graph_launches.hpp"
#include "support/tolerances.hpp"
#include "tasks/weighted_sequences.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Trains a model of each device, and compares what each step and an evaluation find.
void train_on_both(Device device, const Task& task, Index batches_a_step) {
  CAPTURE(batches_a_step);
  const ModelOptions options = model_for(task.data(), {OrthogonalCell{.hidden_size = 12}});
  const TrainerOptions of_training{.optimizer = Adam{.lr = 1e-2}, .accumulate = batches_a_step};
  SequenceModel<float> here(Device::cpu(), options, 3), there(device, options, 3);
  Trainer expected(here, task, of_training), found(there, task, of_training);
  const std::uint64_t before = graph_launches();
  for (int i = 0; i < 6; ++i) {
    const TrainingStep of_cpu = expected.step(), of_gpu = found.step();
    CAPTURE(i);
    CHECK(of_gpu.loss() == Approx(of_cpu.loss()).epsilon(tolerance::trained_elsewhere));
    CHECK(of_gpu.gradient_norm() ==
          Approx(of_cpu.gradient_norm()).epsilon(tolerance::gradient_trained_elsewhere));
  }
  CHECK(graph_launches() > before);
  const Evaluation of_cpu = evaluate(here, task, HeldOut::validation),
                   of_gpu = evaluate(there, task, HeldOut::validation);
  CHECK(of_gpu.loss == Approx(of_cpu.loss).epsilon(tolerance::trained_elsewhere));
  REQUIRE(of_gpu.metrics.size() == of_cpu.metrics.size());
}

}  // namespace

TEST_CASE("own sequences whose targets have weights train on a GPU as on the CPU", "[data][weights][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const RareClass rare;
  const Gaps gaps;
  const DataTask of_classes(rare.view(), {.balanced = true, .batch = 5}),
      of_numbers(gaps.view(), {.missing = Missing::zero, .batch = 5});
  for (const DataTask* task : {&of_classes, &of_numbers})
    for (const Index batches_a_step : {1, 3}) train_on_both(*device, *task, batches_a_step);
}

TEST_CASE("states go from piece to piece on a GPU as on the CPU", "[data][cuda]") {
  const auto device = gpu();
  if (!device) return;
  // 16 pieces of 4 steps for each of 3 streams: the training comes to the end of an epoch with 3 batches a
  // step.
  Tensor<std::int32_t> symbols(Shape{3, 193});
  for (Index i = 0; i < symbols.size(); ++i)
    symbols.data()[i] = static_cast<std::int32_t>((i * i + i / 7) % 5);
  const DataTask task({.symbols = symbols, .validation = 1, .test = 1}, {.ahead = 1, .cut = 4, .batch = 3});
  for (const Index batches_a_step : {1, 3}) train_on_both(*device, task, batches_a_step);
}
