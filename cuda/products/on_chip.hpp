#pragma once
// What the rollouts take that keep Q on chip. src/products/plan.cpp asks; the kernels rely on the answer.

#include "orthornn/core/precision.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// The largest N whose Q is in the registers of one multiprocessor.
inline constexpr Index largest_resident_size = 192;

/// The largest N whose Q is on the multiprocessors of a cluster.
inline constexpr Index largest_cluster_size = 1024;

/// The largest N whose clusters have at most eight blocks and take every batch in this precision. In bf16
/// above 512, Q is one bfloat16 instead of two; in tf32 that would be less than what was asked for. Above
/// this size, clusters compute in fp32 (large_clusters.hpp).
constexpr Index largest_small_cluster_size(Precision precision) {
  return precision == Precision::bf16 ? 1024 : 512;
}

/// Whether there are steps and sequences at all, and T and B N are small enough for the indices of the
/// kernels, which count a few steps ahead.
constexpr bool fits_persistent_rollout(Index length, Index batch, Index hidden_size) {
  return length >= 1 && batch >= 1 && length <= Index{1} << 30 && batch < (Index{1} << 31) / hidden_size;
}

}  // namespace orthornn::cuda
