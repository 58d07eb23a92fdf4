// Every kernel over a large cluster, also where the planner takes another one.

#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "rollouts/kernel_numbers.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"

namespace orthornn::testing {
#ifdef ORTHORNN_WITH_CUDA

TEST_CASE("every kernel over a large cluster is the recurrence", "[cuda][rollout]") {
  const auto device = gpu();
  if (!device) return;
  for (const cuda::ClusterShape& shape : cuda::large_clusters) {
    // The emulated device takes seconds for each: one with columns in shared memory, and two groups.
    const bool light = shape.blocks == 6 && (shape.sequences() == 2 || shape.groups == 2);
    if (is_emulated(*device) && !light) continue;
    INFO("N up to " << shape.size << ", " << shape.blocks << " blocks, " << shape.groups << " times "
                    << shape.group << " sequences");
    // Units and sequences that fill no cluster, and more steps than twice the buffers of the exchange.
    const RolloutSizes sizes{shape.size - 5, is_emulated(*device) ? 3 : 2 * shape.sequences() + 1, 5};
    const Numbers<float> given = random_numbers(sizes, true, 47);
    const Numbers<float> found =
        found_by(*device, given, [&](auto... rollout) { cuda::large_cluster_rollout(rollout..., shape); });
    check_numbers(found, expected_numbers(given, found, Activation::identity, {}), sizes,
                  Activation::identity, {});
  }
}

#endif
}  // namespace orthornn::testing
