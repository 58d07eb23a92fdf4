// Every kernel of a rollout over the grid, also where the planner takes another one.

#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "rollouts/rounded_recurrence.hpp"
#include "support/gpu.hpp"

namespace orthornn::testing {
#ifdef ORTHORNN_WITH_CUDA
namespace {

/// What a plan makes of numbers.
Numbers<float> found_by(const cuda::GridPlan& plan, Device device, const Numbers<float>& given,
                        Activation activation) {
  const Tensor<float> q = given.q.copy(device), d_h_last = given.d_h_last.copy(device);
  const Tensor<std::int32_t> lengths = given.lengths.copy(device);
  Tensor<float> states = given.states.copy(device), d_states = given.d_states.copy(device);
  Tensor<float> h_last(given.h_last.shape(), device), d_h0(given.d_h0.shape(), device);
  const TensorView<float> steps = states.view().slice(1, d_states.shape()[0]);
  const cuda::RolloutArguments<float> arguments{.device = device,
                                                .length = d_states.shape()[0],
                                                .batch = d_states.shape()[1],
                                                .hidden_size = d_states.shape()[2],
                                                .activation = activation,
                                                .lengths = lengths.data(),
                                                .h_0 = states.data(),
                                                .inputs = steps.data(),
                                                .outputs = steps.data(),
                                                .h_last = h_last.data(),
                                                .d_h_last = d_h_last.data(),
                                                .d_outputs = d_states.data(),
                                                .d_inputs = d_states.data(),
                                                .d_h_0 = d_h0.data()};
  cuda::grid_rollout(cuda::Direction::forward, arguments, q.data(), plan);
  cuda::grid_rollout(cuda::Direction::backward, arguments, q.data(), plan);
  Numbers<float> result;
  result.states = states.copy(Device::cpu());
  result.d_states = d_states.copy(Device::cpu());
  result.h_last = h_last.copy(Device::cpu());
  result.d_h0 = d_h0.copy(Device::cpu());
  return result;
}

}  // namespace

TEST_CASE("every kernel over the grid is the recurrence of rounded operands", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  // More steps than twice the buffers of the exchange; units and sequences that fill no block.
  const RolloutSizes sizes{70, 37, 19};
  const Numbers<float> given = random_numbers(sizes, true, 43);
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const auto plans = cuda::grid_plans(
        {.device = *device, .batch = sizes.batch, .hidden_size = sizes.n, .precision = precision});
    const auto same_kernel = [&](std::size_t i, std::size_t j) {
      return i < plans.size() && j < plans.size() && plans[i].tiles == plans[j].tiles;
    };
    std::size_t kernels = 0;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      // The first plan of a kernel has one group, and the last as many as there are.
      const bool first = !same_kernel(i, i - 1);
      if (!first && same_kernel(i, i + 1)) continue;
      kernels += first ? 1 : 0;
      const cuda::GridTiles& tiles = plans[i].tiles;
      INFO(name_of(precision) << ", rows " << tiles.rows << ", sequences " << tiles.sequences << ", sets "
                              << tiles.sets << ", groups " << plans[i].groups);
      check_numbers(found_by(plans[i], *device, given, Activation::tanh), given, sizes, Activation::tanh,
                    operands_of({*device, precision, RolloutWay::grid}, sizes.n));
    }
    CHECK(kernels >= 6);
  }
}

#endif
}  // namespace orthornn::testing
