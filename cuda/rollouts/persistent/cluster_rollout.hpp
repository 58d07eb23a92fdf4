#pragma once
// The two bodies of cluster_rollout (persistent_rollout.hpp), a file each.

#include "cuda/rollouts/rollout_arguments.hpp"
#include "orthornn/core/precision.hpp"

namespace orthornn::cuda {

void fused_multiply_add_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                        const float* q);
void tensor_core_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                 const float* q, Precision precision);

}  // namespace orthornn::cuda
