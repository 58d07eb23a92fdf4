#pragma once

#include <cstddef>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  /// Bytes of dynamic shared memory.
  std::size_t shared = 0;
  /// Blocks of a cluster; 1: none.
  unsigned cluster = 1;
  /// All blocks run at the same time: they wait for each other. The launch fails where the GPU has no room.
  bool together = false;
};

/// Sets the attributes that a kernel needs before its launch: more shared memory than the default limit,
/// clusters of more than eight blocks.
inline void permit(const Context& gpu, const void* function, const LaunchShape& shape) {
  // A block has 48 KiB without asking. Kernels here have at most 32 KiB of static memory.
  constexpr std::size_t allowed_beside_static = 16 << 10;
  constexpr unsigned portable_cluster = 8;
  const bool large_clusters = shape.cluster > portable_cluster;
  if (shape.shared > allowed_beside_static || large_clusters)
    gpu.permit(function, shape.shared, large_clusters);
}

/// The shape in CUDA's types; `attribute` must live as long as the result. A kernel has clusters or runs
/// `together`, not both.
inline cudaLaunchConfig_t launch_config(const LaunchShape& shape, cudaStream_t stream,
                                        cudaLaunchAttribute& attribute) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = stream;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = shape.cluster;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
#ifndef ORTHORNN_EMULATED_CUDA  // the emulator has no such launches
  if (shape.together) {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  }
#endif
  config.attrs = &attribute;
  config.numAttrs = shape.cluster > 1 || shape.together ? 1 : 0;
  return config;
}

/// Launches a kernel. Kernels are launched only by this function.
template <class... Parameters, class... Arguments>
void launch(const Context& gpu, void (*kernel)(Parameters...), const LaunchShape& shape,
            Arguments... arguments) {
  permit(gpu, reinterpret_cast<const void*>(kernel), shape);
  cudaLaunchAttribute attribute{};
  const cudaLaunchConfig_t config = launch_config(shape, gpu.stream(), attribute);
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/// The number of clusters of this kernel and shape that the GPU runs at the same time.
template <class... Parameters>
int possible_clusters(Context& gpu, void (*kernel)(Parameters...), const LaunchShape& shape) {
  const void* function = reinterpret_cast<const void*>(kernel);
  permit(gpu, function, shape);
  cudaLaunchAttribute attribute{};
  return gpu.active_clusters(function, launch_config(shape, gpu.stream(), attribute));
}

/// Throws DeviceError, for a GPU or a part of a GPU that has no room for a cluster of so many blocks.
[[noreturn]] void throw_no_room_for_cluster(unsigned blocks);

/// The same. Throws DeviceError if it is 0.
template <class... Parameters>
int active_clusters(Context& gpu, void (*kernel)(Parameters...), const LaunchShape& shape) {
  const int clusters = possible_clusters(gpu, kernel, shape);
  if (clusters == 0) throw_no_room_for_cluster(shape.cluster);
  return clusters;
}

/// A number of blocks as CUDA takes it. Throws ValueError for more than a grid may have.
unsigned grid_size(Index blocks);

inline unsigned blocks_for(Index count, Index per_block) {
  return grid_size((count + per_block - 1) / per_block);
}

}  // namespace orthornn::cuda
