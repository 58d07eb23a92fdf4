#pragma once
// The two bodies of cluster_rollout (persistent_rollout.hpp), a file each.

#include "cuda/cells/rollout_arguments.hpp"
#include "cuda/core/launch.hpp"
#include "orthornn/core/precision.hpp"

namespace orthornn::cuda {

void fused_multiply_add_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                        const float* q);
void tensor_core_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                 const float* q, Precision precision);

/// Starts `kernel` for `sequences` at a time over clusters of `blocks`, and says true; or says false when
/// that would take several turns and `insist` is false.
inline bool start_in_one_turn(Context& gpu, void (*kernel)(RolloutArguments<float>, const float*),
                              unsigned blocks, unsigned threads, std::size_t shared, int sequences,
                              bool insist, const RolloutArguments<float>& arguments, const float* q) {
  const unsigned clusters = blocks_for(arguments.batch, sequences);
  const LaunchShape shape{.grid = clusters * blocks, .block = threads, .shared = shared, .cluster = blocks};
  if (static_cast<int>(clusters) > active_clusters(gpu, kernel, shape) && !insist) return false;
  launch(gpu, kernel, shape, arguments, q);
  return true;
}

}  // namespace orthornn::cuda
