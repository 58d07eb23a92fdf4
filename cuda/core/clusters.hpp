#pragma once

#include <cstddef>

namespace orthornn::cuda {

class Context;

/// Shared memory that a block may have at compute capability 9.0. Kernels over clusters rely on it.
inline constexpr std::size_t cluster_shared_memory = std::size_t{227} << 10;

/// Whether the current device runs clusters of eight blocks, each with that memory, and has loaded kernels
/// that were compiled for clusters. A part of a GPU (MIG) may have too few multiprocessors for a cluster.
bool current_device_has_clusters();

/// The number of clusters that a GPU runs at the same time if each of their blocks takes a multiprocessor; 0
/// where it has no room for one. The first call for a number of blocks is slow.
int clusters_at_a_time(Context& gpu, int blocks);

}  // namespace orthornn::cuda
