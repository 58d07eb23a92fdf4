// Every kernel of a gated recurrence over the grid, and every way to run it, against the plan that is taken.
// layer_device_test.cpp compares that with the CPU. Forward in fp32 there is one kernel.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/layers/gated_rollout.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
#ifdef ORTHORNN_WITH_CUDA
namespace {

/// The arrays of a rollout (cuda/layers/gated_rollout.hpp), on a GPU.
struct GatedNumbers {
  std::vector<Tensor<float>> arrays;

  GatedNumbers(Index length, Index batch, Index n, Index gates, Device device) {
    std::uint64_t seed = 51;
    for (const Shape& shape :
         {Shape{length, batch, gates * n}, Shape{length, batch, gates * n}, Shape{length + 1, batch, n},
          Shape{length + 1, batch, n}, Shape{batch, n}, Shape{batch, n}}) {
      arrays.push_back(normal_tensor<float>(shape, ++seed, 0.5).copy(device));
    }
  }
  GatedNumbers(const GatedNumbers& other) {
    for (const Tensor<float>& x : other.arrays) arrays.push_back(x.copy(x.device()));
  }
  cuda::GatedRolloutArguments arguments() {
    const Shape& states = arrays[2].shape();
    return {.device = arrays[0].device(),
            .length = states[0] - 1,
            .batch = states[1],
            .hidden_size = states[2],
            .gates = arrays[0].data(),
            .products = arrays[1].data(),
            .states = {arrays[2].data(), arrays[3].data()},
            .d_first = {arrays[4].data(), arrays[5].data()}};
  }
};

using GatedRollout = void (*)(cuda::Direction, const cuda::GatedRolloutArguments&, const float*,
                              const cuda::GridPlan&);

/// Runs each kernel of a direction from `given`, with as many and as few groups as there are, and with all,
/// some and no operands in shared memory.
void check_kernels(GatedRollout rollout, cuda::Direction direction, const cuda::GridProblem& problem,
                   int gates, const GatedNumbers& given, double bound) {
  const Index n = problem.hidden_size, length = given.arrays[2].shape()[0] - 1;
  const Tensor<float> weights =
      normal_tensor<float>({gates * n, n}, 61, 1 / std::sqrt(static_cast<double>(n))).copy(problem.device);
  const Tensor<float> bias = normal_tensor<float>({gates * n}, 62, 0.1).copy(problem.device);
  const Tensor<float> d_h = normal_tensor<float>({length, problem.batch, n}, 63).copy(problem.device);
  Tensor<std::int32_t> lengths(Shape{problem.batch});
  for (Index b = 0; b < problem.batch; ++b) lengths(b) = static_cast<std::int32_t>(b % (length + 1));
  const Tensor<std::int32_t> lengths_there = lengths.copy(problem.device);
  const auto found_by = [&](const cuda::GridPlan& plan) {
    GatedNumbers found(given);
    cuda::GatedRolloutArguments arguments = found.arguments();
    arguments.lengths = lengths_there.data();
    arguments.product_bias = bias.data();
    arguments.d_h = d_h.data();
    rollout(direction, arguments, weights.data(), plan);
    for (Tensor<float>& x : found.arrays) x = x.copy(Device::cpu());
    return found;
  };
  const GatedNumbers expected = found_by(cuda::grid_plan(problem).value());
  const auto plans = cuda::grid_plans(problem);
  const auto same_kernel = [&](std::size_t i, std::size_t j) {
    return i < plans.size() && j < plans.size() && plans[i].tiles == plans[j].tiles;
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (same_kernel(i, i - 1) && same_kernel(i, i + 1)) continue;
    cuda::GridPlan plan = plans[i];
    for (const int resident : {plan.resident, 1, 0}) {
      plan.resident = resident;
      INFO("terms " << plan.terms << ", rows " << plan.tiles.rows << ", sequences " << plan.tiles.sequences
                    << ", sets " << plan.tiles.sets << ", groups " << plan.groups << ", resident "
                    << resident);
      const GatedNumbers found = found_by(plan);
      for (std::size_t k = 0; k < found.arrays.size(); ++k) {
        INFO("array " << k);
        CHECK(relative_error(found.arrays[k], expected.arrays[k]) <= bound);
      }
    }
  }
}

}  // namespace

TEST_CASE("kernels of gated recurrences over the grid agree", "[cuda]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  constexpr Index n = 600, batch = 37, length = 19;
  struct Kind {
    GatedRollout rollout;
    int gates;
  };
  for (const Kind& kind : {Kind{cuda::lstm_grid_rollout, 4}, Kind{cuda::gru_grid_rollout, 3}}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
      const cuda::GridProblem forward{
          .device = *device, .batch = batch, .hidden_size = n, .precision = precision, .gates = kind.gates};
      // Sums of two orders are off by their rounding each, and can put a number of the state on the other
      // side of a rounding to 8 bits a term.
      const int terms = precision == Precision::bf16 ? 1 : precision == Precision::tf32 ? 2 : 3;
      const double sums = 2 * tolerance::reference_float(length, kind.gates * n, 4);
      const double bound =
          sums + 2 * std::sqrt(static_cast<double>(length + 1) * sums * std::exp2(-8 * terms));
      CAPTURE(kind.gates, name_of(precision));
      const GatedNumbers numbers(length, batch, n, kind.gates, *device);
      check_kernels(kind.rollout, cuda::Direction::forward, forward, kind.gates, numbers, bound);
      check_kernels(kind.rollout, cuda::Direction::backward, transposed(forward), kind.gates, numbers, bound);
    }
  }
}

#endif
}  // namespace orthornn::testing
