#include <cstring>

#include "cuda_runtime.h"
#include "runtime.hpp"

namespace orthornn::emulator {
namespace {

/// A copy of `height` rows of `width` bytes.
struct Copy {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch;
  std::size_t width, height;
  cudaMemcpyKind kind;

  std::size_t to_bytes() const { return (height - 1) * to_pitch + width; }
  std::size_t from_bytes() const { return (height - 1) * from_pitch + width; }
  bool empty() const { return width == 0 || height == 0; }

  void operator()() const {
    for (std::size_t row = 0; row < height; ++row) {
      std::memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                   width);
    }
  }
};

bool plausible(const void* address, std::size_t bytes, bool on_device) {
  if (address == nullptr) return false;
  return on_device ? is_device_memory(address, bytes) : !begins_in_device_memory(address);
}

cudaError_t check(const Copy& copy) {
  if (!device_exists()) return cudaErrorNoDevice;
  if (copy.kind < cudaMemcpyHostToHost || copy.kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (copy.empty()) return cudaSuccess;
  if (copy.height > 1 && (copy.to_pitch < copy.width || copy.from_pitch < copy.width))
    return cudaErrorInvalidValue;
  const bool deduce = copy.kind == cudaMemcpyDefault;
  const bool to_device = deduce
                             ? begins_in_device_memory(copy.to)
                             : copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
  const bool from_device = deduce
                               ? begins_in_device_memory(copy.from)
                               : copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
  return plausible(copy.to, copy.to_bytes(), to_device) &&
                 plausible(copy.from, copy.from_bytes(), from_device)
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

cudaError_t copy_now(const Copy& copy) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = refuse_during_capture(); error != cudaSuccess) return remember(error);
  if (const cudaError_t error = check(copy); error != cudaSuccess) return remember(error);
  if (!copy.empty()) copy();
  return cudaSuccess;
}

cudaError_t enqueue_copy(const Copy& copy, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (const cudaError_t error = check(copy); error != cudaSuccess) return remember(error);
  if (copy.empty()) return cudaSuccess;
  // A graph remembers addresses, and pageable memory has none to be relied on.
  const auto lasting = [](const void* address, std::size_t bytes) {
    return is_device_memory(address, bytes) || is_pinned_memory(address, bytes);
  };
  if (is_capturing(stream) && !(lasting(copy.to, copy.to_bytes()) && lasting(copy.from, copy.from_bytes()))) {
    refuse_during_capture();
    return remember(cudaErrorStreamCaptureUnsupported);
  }
  return remember(enqueue(stream, copy));
}

}  // namespace

cudaError_t copy_to_symbol(void* symbol, std::size_t symbol_bytes, const void* from, std::size_t bytes,
                           std::size_t offset, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (offset > symbol_bytes || bytes > symbol_bytes - offset) return remember(cudaErrorInvalidValue);
  return remember(enqueue(stream, [=] { std::memcpy(static_cast<char*>(symbol) + offset, from, bytes); }));
}

}  // namespace orthornn::emulator

using orthornn::emulator::Copy;

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return orthornn::emulator::copy_now({to, bytes, from, bytes, bytes, 1, kind});
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return orthornn::emulator::enqueue_copy({to, bytes, from, bytes, bytes, 1, kind}, stream);
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return orthornn::emulator::copy_now({to, to_pitch, from, from_pitch, width, height, kind});
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return orthornn::emulator::enqueue_copy({to, to_pitch, from, from_pitch, width, height, kind}, stream);
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  const std::lock_guard lock(orthornn::emulator::runtime_mutex());
  if (const cudaError_t error = orthornn::emulator::refuse_during_capture(); error != cudaSuccess) {
    return orthornn::emulator::remember(error);
  }
  return cudaMemsetAsync(address, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(orthornn::emulator::runtime_mutex());
  if (bytes == 0) return cudaSuccess;
  if (!orthornn::emulator::is_device_memory(address, bytes) &&
      !orthornn::emulator::is_pinned_memory(address, bytes)) {
    return orthornn::emulator::remember(cudaErrorInvalidValue);
  }
  return orthornn::emulator::remember(
      orthornn::emulator::enqueue(stream, [=] { std::memset(address, value, bytes); }));
}

cudaError_t cudaMemset2DAsync(void* address, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  const std::lock_guard lock(orthornn::emulator::runtime_mutex());
  if (width == 0 || height == 0) return cudaSuccess;
  if (pitch < width || !orthornn::emulator::is_device_memory(address, (height - 1) * pitch + width)) {
    return orthornn::emulator::remember(cudaErrorInvalidValue);
  }
  return orthornn::emulator::remember(orthornn::emulator::enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memset(static_cast<char*>(address) + row * pitch, value, width);
  }));
}
