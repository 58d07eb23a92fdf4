// Every kernel of a gated recurrence over the grid against that which the planner takes, and which
// layer_device_test.cpp compares with the CPU.

#include <cmath>
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

/// A direction of a recurrence with so many gates, from `given`.
void check_kernels(GatedRollout rollout, cuda::Direction direction, const cuda::GridProblem& problem,
                   int gates, const GatedNumbers& given, double bound) {
  const Index n = problem.hidden_size;
  const Tensor<float> weights =
      normal_tensor<float>({gates * n, n}, 61, 1 / std::sqrt(static_cast<double>(n))).copy(problem.device);
  const Tensor<float> bias = normal_tensor<float>({gates * n}, 62, 0.1).copy(problem.device);
  const Tensor<float> d_h =
      normal_tensor<float>({given.arrays[2].shape()[0] - 1, problem.batch, n}, 63).copy(problem.device);
  const auto found_by = [&](const cuda::GridPlan& plan) {
    GatedNumbers found(given);
    cuda::GatedRolloutArguments arguments = found.arguments();
    arguments.product_bias = bias.data();
    arguments.d_h = d_h.data();
    rollout(direction, arguments, weights.data(), plan);
    for (Tensor<float>& x : found.arrays) x = x.copy(Device::cpu());
    return found;
  };
  const GatedNumbers expected = found_by(cuda::grid_plan(problem).value());
  const auto plans = cuda::grid_plans(problem);
  REQUIRE(plans.size() > 1);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (i > 0 && plans[i].tiles == plans[i - 1].tiles) continue;
    const cuda::GridTiles& tiles = plans[i].tiles;
    INFO("terms " << plans[i].terms << ", rows " << tiles.rows << ", sequences " << tiles.sequences
                  << ", sets " << tiles.sets);
    const GatedNumbers found = found_by(plans[i]);
    for (std::size_t k = 0; k < found.arrays.size(); ++k) {
      INFO("array " << k);
      CHECK(relative_error(found.arrays[k], expected.arrays[k]) <= bound);
    }
  }
}

}  // namespace

TEST_CASE("kernels of gated recurrences over the grid agree", "[cuda]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  constexpr Index n = 70, batch = 37, length = 19;
  struct Kind {
    GatedRollout rollout;
    int gates;
  };
  for (const Kind& kind : {Kind{cuda::lstm_grid_rollout, 4}, Kind{cuda::gru_grid_rollout, 3}}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
      const cuda::GridProblem forward{
          .device = *device, .batch = batch, .hidden_size = n, .precision = precision, .gates = kind.gates};
      // Another order of sums can put a number of the state on the other side of a rounding to 8 bits a term.
      const double unit = std::exp2(-8 * (precision == Precision::bf16   ? 1
                                          : precision == Precision::tf32 ? 2
                                                                         : 3));
      const double sums = tolerance::reference_float(length, kind.gates * n, 4);
      const double bound = sums + 2 * std::sqrt(static_cast<double>(length + 1) * sums * unit);
      CAPTURE(kind.gates, name_of(precision));
      GatedNumbers numbers(length, batch, n, kind.gates, *device);
      check_kernels(kind.rollout, cuda::Direction::forward, forward, kind.gates, numbers, bound);
      check_kernels(kind.rollout, cuda::Direction::backward, transposed(forward), kind.gates, numbers, bound);
    }
  }
}

#endif
}  // namespace orthornn::testing
