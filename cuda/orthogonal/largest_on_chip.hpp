#pragma once
// The largest Q of the rollouts that keep it on chip (cuda/cells/persistent_rollout.hpp). The choice between
// Q and its factors uses it.

#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// Q in the registers of one multiprocessor.
inline constexpr Index largest_resident_size = 192;
/// Q on the multiprocessors of a cluster of at most 8.
inline constexpr Index largest_cluster_size = 512;
inline constexpr Index largest_bf16_cluster_size = 1024;

}  // namespace orthornn::cuda
