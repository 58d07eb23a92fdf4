#include <cstdint>

#include "cuda/rollouts/persistent/grid_launch.cuh"
#include "cuda/rollouts/rollout_arguments.hpp"
#include "orthornn/core/tensor.hpp"
#include "rollouts/stuck_block.hpp"

namespace orthornn::testing {
namespace {

using namespace orthornn::cuda;

/// An element of a rollout over the grid (cuda/rollouts/persistent/grid_rollout.cuh) whose states are zeros,
/// and which the first block never finishes.
struct StuckElement {
  static constexpr Direction direction = Direction::forward;
  static constexpr int gates = 1, published = 1;
  using Arguments = RolloutArguments<float>;
  struct Work {};

  StuckElement() = default;
  __device__ StuckElement(const Arguments&, int, int) {}

  __device__ Work load(const Arguments&, int) const {
    constexpr std::uint64_t minute_ns = 60'000'000'000;
    std::uint64_t began, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    do {
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (blockIdx.x == 0 && now - began < minute_ns);
    return {};
  }
  __device__ void start(const Arguments&, float (&x)[1]) const { x[0] = 0; }
  __device__ void step(const Arguments&, int, const float (&)[1], Work&, float (&x)[1]) const { x[0] = 0; }
  __device__ void keep(const Arguments&, int, const Work&) const {}
  __device__ void end(const Arguments&, const float (&)[1]) const {}
};

}  // namespace

void start_rollout_with_stuck_block(Device device) {
  constexpr Index n = 512, batch = 8, length = 4;
  const auto plan =
      grid_plan({.device = device, .batch = batch, .hidden_size = n, .precision = Precision::bf16});
  const Tensor<float> q(Shape{n, n}, device);
  const RolloutArguments<float> arguments{.device = device,
                                          .length = length,
                                          .batch = batch,
                                          .hidden_size = n,
                                          .activation = Activation::identity};
  start_planned<1, StuckElement>(context(device), arguments,
                                 {.data = q.data(), .gates = 1, .n = static_cast<int>(n), .padded = 0},
                                 plan.value());
}

}  // namespace orthornn::testing
