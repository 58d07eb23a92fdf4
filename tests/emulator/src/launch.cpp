#include <algorithm>
#include <map>
#include <utility>

#include "cuda_runtime.h"
#include "processor.hpp"
#include "runtime.hpp"

namespace orthornn::emulator {
namespace {

constexpr int shared_default = 48 << 10, portable_cluster = 8;

struct KernelAttributes {
  int shared_bytes = shared_default;
  bool large_clusters = false;
};

std::map<const void*, KernelAttributes>& kernel_attributes() {
  static std::map<const void*, KernelAttributes> instance;
  return instance;
}

bool within(dim3 size, dim3 limit) {
  return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= limit.x && size.y <= limit.y &&
         size.z <= limit.z;
}

std::uint64_t volume(dim3 size) { return std::uint64_t{size.x} * size.y * size.z; }

dim3 cluster_of(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    const auto& size = config.attrs[i].val.clusterDim;
    return {size.x, size.y, size.z};
  }
  return {1, 1, 1};
}

cudaError_t check(const cudaLaunchConfig_t& config, const void* kernel) {
  if (!device_exists()) return cudaErrorNoDevice;
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  const KernelAttributes attributes = kernel_attributes()[kernel];
  if (!within(config.gridDim, {0x7FFFFFFF, 65535, 65535})) return cudaErrorInvalidConfiguration;
  if (!within(config.blockDim, {1024, 1024, 64}) || volume(config.blockDim) > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  if (config.dynamicSmemBytes > static_cast<std::size_t>(attributes.shared_bytes))
    return cudaErrorInvalidValue;
  const dim3 cluster = cluster_of(config);
  if (volume(cluster) == 0 || volume(cluster) > SharedMemory::max_blocks ||
      (volume(cluster) > portable_cluster && !attributes.large_clusters)) {
    return cudaErrorInvalidClusterSize;
  }
  const dim3 grid = config.gridDim;
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return cudaErrorInvalidConfiguration;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t enqueue_launch(const cudaLaunchConfig_t* config, const void* kernel,
                           std::function<void()> thread) {
  const std::lock_guard lock(runtime_mutex());
  if (config == nullptr) return remember(cudaErrorInvalidValue);
  if (const cudaError_t error = check(*config, kernel); error != cudaSuccess) return remember(error);
  explain_faults();
  Launch launch{.thread = std::move(thread),
                .kernel = kernel,
                .grid = config->gridDim,
                .block = config->blockDim,
                .cluster = cluster_of(*config),
                .shared_bytes = config->dynamicSmemBytes};
  return remember(enqueue(config->stream, [launch = std::move(launch)] { processor().run(launch); }));
}

}  // namespace orthornn::emulator

using orthornn::emulator::kernel_attributes;
using orthornn::emulator::remember;
using orthornn::emulator::runtime_mutex;

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(runtime_mutex());
  if (function == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  if (value < 0) return remember(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (static_cast<std::size_t>(value) > orthornn::emulator::SharedMemory::max_bytes) {
        return remember(cudaErrorInvalidValue);
      }
      kernel_attributes()[function].shared_bytes = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      kernel_attributes()[function].large_clusters = value != 0;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      return remember(value <= 100 ? cudaSuccess : cudaErrorInvalidValue);
  }
  return remember(cudaErrorInvalidValue);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = 90;  // as the device that device.cpp describes
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveClusters(int* count, const void* function,
                                           const cudaLaunchConfig_t* config) {
  const std::lock_guard lock(runtime_mutex());
  *count = 0;
  if (const cudaError_t error = orthornn::emulator::check(*config, function); error != cudaSuccess) {
    return remember(error);
  }
  const auto size = static_cast<int>(orthornn::emulator::volume(orthornn::emulator::cluster_of(*config)));
  int processors = 0;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
  *count = processors / size;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void*, int block_size,
                                                          std::size_t shared_bytes) {
  if (block_size < 1 || block_size > 1024) return remember(cudaErrorInvalidValue);
  const int by_threads = std::min(32, 2048 / ((block_size + 31) / 32 * 32));
  const auto by_memory = static_cast<int>((228 << 10) / (shared_bytes + (1 << 10)));
  *count = std::min(by_threads, by_memory);
  return cudaSuccess;
}
