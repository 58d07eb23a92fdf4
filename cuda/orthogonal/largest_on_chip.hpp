#pragma once
// How large Q may be for the rollouts that keep it on chip (cuda/cells/persistent_rollout.hpp), for those who
// choose between Q and its factors.

#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// Q in the registers of one multiprocessor.
inline constexpr Index largest_resident_size = 192;
/// Q on the chips of a cluster of at most 8 multiprocessors.
inline constexpr Index largest_cluster_size = 512;
inline constexpr Index largest_bf16_cluster_size = 1024;

}  // namespace orthornn::cuda
