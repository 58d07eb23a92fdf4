#include "cuda/core/device.hpp"

#include <fmt/format.h>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {
namespace {

constexpr int oldest_capability = 80;

std::string in_gigabytes(std::size_t bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) * 1e-9);
}

}  // namespace

std::optional<std::string> unusable(int index) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    cudaGetLastError();
    if (status == cudaErrorInsufficientDriver) {
      return "the NVIDIA driver is missing or older than this build's CUDA needs; install a newer driver";
    }
    if (status != cudaErrorNoDevice) return fmt::format("CUDA says: {}", cudaGetErrorString(status));
  }
  if (count == 0) return "this machine has no NVIDIA GPU";
  if (index < 0 || index >= count) {
    return fmt::format("there is no GPU {}; this machine has {}, counted from 0", index, count);
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index));
  if (10 * properties.major + properties.minor < oldest_capability) {
    return fmt::format("GPU {} ({}) has compute capability {}.{}; 8.0 or more is needed", index,
                       properties.name, properties.major, properties.minor);
  }
  return std::nullopt;
}

void* allocate(Device device, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  Context& gpu = context(device);
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    throw DeviceError(fmt::format(
        "out of memory on {}: {} more were needed, {} of {} are free; use a smaller batch or model",
        to_string(device), in_gigabytes(bytes), in_gigabytes(free), in_gigabytes(total)));
  }
  check(status);
  ++gpu.memory_changes;
  return memory;
}

void release(Device device, void* memory) noexcept {
  if (memory == nullptr) return;
  // At the end of a process the driver may be gone already, and there is nobody to tell.
  if (cudaSetDevice(device.index()) != cudaSuccess || cudaFree(memory) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  ++context(device).memory_changes;
}

std::uint64_t memory_changes(Device device) { return context(device).memory_changes; }

void fill_zero(Device device, void* memory, std::size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(memory, 0, bytes, context(device).stream()));
}

void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  Context& gpu = context(to_device.is_cuda() ? to_device : from_device);
  if (to_device.is_cuda() && from_device.is_cuda() && to_device != from_device) {
    cuda::synchronize(from_device);
    context(to_device);
  }
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu.stream()));
  if (!to_device.is_cuda()) gpu.synchronize();
}

void synchronize(Device device) { context(device).synchronize(); }

void* stream_of(Device device) { return context(device).stream(); }

}  // namespace orthornn::cuda
