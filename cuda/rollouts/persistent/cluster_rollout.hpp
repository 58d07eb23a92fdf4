#pragma once
// The bodies of cluster_rollout (persistent_rollout.hpp), a file each.

#include "cuda/products/large_clusters.hpp"
#include "cuda/rollouts/rollout_arguments.hpp"
#include "orthornn/core/precision.hpp"

namespace orthornn::cuda {

/// Carries few sequences: as many as the GPU can carry at the same time with one a cluster, by fused
/// multiply-adds. Returns false, and does nothing, for more.
bool few_sequences_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q);
void fused_multiply_add_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                        const float* q);
/// `shape` is one of large_clusters that holds N.
void large_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                           const ClusterShape& shape);
void tensor_core_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                 const float* q, Precision precision);

}  // namespace orthornn::cuda
