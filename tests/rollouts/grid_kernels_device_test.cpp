// Every kernel of a rollout over the grid, also where the planner takes another one.

#include <cstddef>

#include "cuda/products/few_over_grid.hpp"
#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "rollouts/kernel_numbers.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace orthornn::testing {
#ifdef ORTHORNN_WITH_CUDA

TEST_CASE("every kernel over the grid is the recurrence of rounded operands", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  // More steps than twice the buffers of the exchange; units and sequences that fill no block; and more
  // columns than a warp has on the way at once. In one group there are two rounds or more, whose sequences
  // are in all tiles of the sets.
  const RolloutSizes sizes{1190, 125, 17};
  const Numbers<float> given = random_numbers(sizes, true, 43);
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const Operands operands = operands_of({*device, precision, RolloutWay::grid}, sizes.n);
    // A linear recurrence has slopes of 1, so one loop is that of all kernels.
    const Numbers<double> loop = expected_numbers(given, given, Activation::identity, operands);
    const auto plans = cuda::grid_plans(
        {.device = *device, .batch = sizes.batch, .hidden_size = sizes.n, .precision = precision});
    std::size_t kernels = 0;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      // The first plan of a kernel has one group, the last one as many as there are.
      const bool is_first = i == 0 || plans[i - 1].tiles != plans[i].tiles,
                 is_last = i + 1 == plans.size() || plans[i].tiles != plans[i + 1].tiles;
      if (!is_first && !is_last) continue;
      if (is_first) ++kernels;
      cuda::GridPlan plan = plans[i];
      // What lies in shared memory: what has room, one chunk of a slice, and nothing.
      for (const int resident : {plan.resident, 1, 0}) {
        plan.resident = resident;
        INFO(name_of(precision) << ", rows " << plan.tiles.rows << ", sequences " << plan.tiles.sequences
                                << ", sets " << plan.tiles.sets << ", groups " << plan.groups << ", resident "
                                << resident);
        const Numbers<float> found =
            found_by(*device, given, [&](auto... rollout) { cuda::grid_rollout(rollout..., plan); });
        check_numbers(found, loop, sizes, Activation::identity, operands);
      }
    }
    CHECK(kernels > 1);
  }
}

TEST_CASE("every number of sequences over the grid by fused multiply-adds is the recurrence",
          "[cuda][rollout]") {
  const auto device = gpu();
  if (!device || is_emulated(*device)) return;
  // Eight columns a thread, and twelve.
  for (const Index n : {1030, 2060}) {
    for (const int batch : {1, 2, 7, cuda::few_over_grid_sequences}) {
      INFO("N " << n << " B " << batch);
      const RolloutSizes sizes{n, batch, 17};
      const Numbers<float> given = random_numbers(sizes, true, 51);
      const Numbers<float> found =
          found_by(*device, given, [](auto... rollout) { cuda::few_over_grid_rollout(rollout...); });
      check_numbers(found, expected_numbers(given, found, Activation::identity, {}), sizes,
                    Activation::identity, {});
    }
  }
}

#endif
}  // namespace orthornn::testing
