#include "cuda/core/clusters.hpp"
#include "cuda/core/launch.hpp"

namespace orthornn::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

bool current_device_has_clusters() {
  constexpr int cluster_capability = 90;
  // Not binaryVersion: the driver compiles PTX of an older GPU, which lacks the cluster code, to a binary of
  // its own version.
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, nothing));
  if (attributes.ptxVersion < cluster_capability) return false;
  int device = 0, shared_memory = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&shared_memory, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (static_cast<std::size_t>(shared_memory) < cluster_shared_memory) return false;
  const LaunchShape shape{.grid = 8, .block = 256, .shared = cluster_shared_memory, .cluster = 8};
  const void* function = reinterpret_cast<const void*>(nothing);
  check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shape.shared)));
  cudaLaunchAttribute attribute{};
  const cudaLaunchConfig_t config = launch_config(shape, nullptr, attribute);
  return clusters_with_room(function, config) > 0;
}

int clusters_at_a_time(Context& gpu, int blocks) {
  const auto count = static_cast<unsigned>(blocks);
  return possible_clusters(gpu, nothing,
                           {.grid = count, .block = 256, .shared = cluster_shared_memory, .cluster = count});
}

}  // namespace orthornn::cuda
