#include "cuda/core/device.hpp"

#include <fmt/format.h>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {
namespace {

constexpr int oldest_capability = 80;

/// 13000 is CUDA 13.0.
std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

}  // namespace

std::optional<std::string> unusable(int index) {
  if (existing_context(index) != nullptr) return std::nullopt;  // it has been asked already, which takes long
  int count = 0;
  const auto words_of = [](cudaError_t status) {
    cudaGetLastError();
    return fmt::format("CUDA says: {}", cudaGetErrorString(status));
  };
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    const std::string words = words_of(status);
    if (status == cudaErrorInsufficientDriver) {
      return "the NVIDIA driver is missing or older than this build's CUDA needs; install a newer driver";
    }
    if (status != cudaErrorNoDevice) return words;
  }
  if (count == 0) return "this machine has no NVIDIA GPU";
  if (index < 0 || index >= count) {
    return fmt::format("there is no GPU {}; this machine has {}, counted from 0", index, count);
  }
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
    return words_of(status);
  }
  if (10 * properties.major + properties.minor < oldest_capability) {
    return fmt::format("GPU {} ({}) has compute capability {}.{}; 8.0 or more is needed", index,
                       properties.name, properties.major, properties.minor);
  }
  return std::nullopt;
}

DeviceProperties properties_of(Device device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.index()));
  int clock_khz = 0, driver = 0, runtime = 0;
  check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device.index()));
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  return {.name = properties.name,
          .compute_capability = fmt::format("{}.{}", properties.major, properties.minor),
          .memory_bytes = properties.totalGlobalMem,
          .multiprocessors = properties.multiProcessorCount,
          .clock_mhz = clock_khz / 1000,
          .driver_cuda = cuda_version(driver),
          .cuda = cuda_version(runtime)};
}

void* allocate(Device device, std::size_t bytes) {
  return bytes == 0 ? nullptr : context(device).allocate(bytes);
}

void release(Device device, void* memory) noexcept {
  if (memory == nullptr) return;
  if (Context* const gpu = existing_context(device.index())) gpu->release(memory);
}

std::size_t free_memory(Device device) { return context(device).free_memory(); }

std::uint64_t memory_changes(Device device) { return context(device).memory_changes(); }

void fill_zero(Device device, void* memory, std::size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(memory, 0, bytes, context(device).stream()));
}

void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (to_device.is_cuda() && from_device.is_cuda() && to_device != from_device) {
    Context& source = context(from_device);
    Context& target = context(to_device);
    target.follow(source);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, target.stream()));
    source.follow(target);  // the source may overwrite or free the memory after the copy
    return;
  }
  Context& gpu = context(to_device.is_cuda() ? to_device : from_device);
  if (to_device == from_device) {
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu.stream()));
  }
  gpu.refuse_waiting();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu.stream()));
  to_device.is_cuda() ? gpu.wait() : gpu.synchronize();
}

bool has_clusters(Device device) { return context(device).has_clusters(); }

void synchronize(Device device) { context(device).synchronize(); }

int take_fault_word(Device device) { return context(device).take_fault_word(); }

void give_back_fault_word(Device device, int number) noexcept {
  if (Context* const gpu = existing_context(device.index())) gpu->give_back_fault_word(number);
}

int use_fault_word(Device device, int number) noexcept {
  Context* const gpu = existing_context(device.index());
  return gpu != nullptr ? gpu->use_fault_word(number) : 0;
}

void* stream_of(Device device) { return context(device).stream(); }

void* use_stream(Device device, void* stream) {
  return context(device).use_stream(static_cast<cudaStream_t>(stream));
}

void return_to_stream(Device device, void* stream) noexcept {
  if (Context* const gpu = existing_context(device.index()))
    gpu->return_to_stream(static_cast<cudaStream_t>(stream));
}

void refuse_first_use_in_capture(Device device, void* stream) {
  if (existing_context(device.index()) != nullptr) return;
  check(cudaSetDevice(device.index()));  // CUDA's default stream is that of the current GPU
  if (!is_captured(static_cast<cudaStream_t>(stream))) return;
  throw DeviceError(
      fmt::format("the first operation on cuda:{} came while a stream was captured; run it directly once "
                  "before, with the same sizes",
                  device.index()));
}

}  // namespace orthornn::cuda
