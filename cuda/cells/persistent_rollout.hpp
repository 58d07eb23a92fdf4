#pragma once
// Rollouts that are one kernel: Q stays on chip, and the loop over time is inside.

#include "cuda/cells/rollout_arguments.hpp"
#include "orthornn/core/precision.hpp"

namespace orthornn::cuda {

/// Q in the registers of one multiprocessor.
inline constexpr Index largest_resident_size = 192;
/// Q on the chips of a cluster of at most 8 multiprocessors.
inline constexpr Index largest_cluster_size = 512;
inline constexpr Index largest_bf16_cluster_size = 1024;

/// Whether the GPU has thread-block clusters (compute capability 9.0).
bool has_clusters(Device device);
/// Whether T and B N are small enough for the indices of these kernels.
bool fits_persistent_rollout(Index length, Index batch, Index hidden_size);

/// From Q [N, N] in C order, N <= largest_resident_size.
void resident_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q);
/// The same over clusters: fp32 multiplies by fused multiply-adds, tf32 and bf16 on tensor cores.
void cluster_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                     Precision precision);

}  // namespace orthornn::cuda
