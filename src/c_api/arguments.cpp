#include "c_api/arguments.hpp"

#include <new>
#include <string>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"

#ifdef ORTHORNN_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace orthornn::c_api {
namespace {

thread_local std::string last_message;

/// The text of the message where memory is too short for another one.
constexpr const char* no_memory = "memory is short";
thread_local bool is_memory_short = false;

orthornn_status fail(orthornn_status status, const char* message) noexcept {
  try {
    last_message = message;
    is_memory_short = false;
  } catch (const std::bad_alloc&) {
    is_memory_short = true;
  }
  return status;
}

}  // namespace

orthornn_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const ArgumentError& error) {
    return fail(ORTHORNN_INVALID_ARGUMENT, error.what());
  } catch (const ShapeError& error) {
    return fail(ORTHORNN_INVALID_SHAPE, error.what());
  } catch (const FileError& error) {
    return fail(ORTHORNN_FILE_ERROR, error.what());
  } catch (const DeviceError& error) {
    return fail(ORTHORNN_DEVICE_ERROR, error.what());
  } catch (const Error& error) {
    return fail(ORTHORNN_INVALID_VALUE, error.what());
  } catch (const std::bad_alloc&) {
    is_memory_short = true;
    return ORTHORNN_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    return fail(ORTHORNN_INTERNAL_ERROR, error.what());
  } catch (...) {
    return fail(ORTHORNN_INTERNAL_ERROR, "an exception of an unknown kind");
  }
}

Device device_of(const orthornn_device* device) {
  if (device == nullptr) return Device::cpu();
  if (value_of("device.kind", device->kind, Device::Kind::cuda) == Device::Kind::cuda) {
    size_of("device.index", device->index, 0);
    const Device found = Device::cuda(device->index);
    if constexpr (has_cuda_bodies) cuda::refuse_first_use_in_capture(found, device->stream);
    return found;
  }
  size_of("device.index of the CPU", device->index, 0, 0);
  return Device::cpu();
}

CallersGpu::CallersGpu([[maybe_unused]] bool uses_gpu) noexcept {
#ifdef ORTHORNN_WITH_CUDA
  if (!uses_gpu) return;
  static std::recursive_mutex turns;  // within a call, callbacks of the caller may make another one
  turn_ = std::unique_lock(turns);
  if (cudaGetDevice(&index_) != cudaSuccess) index_ = -1;
#endif
}

CallersGpu::~CallersGpu() {
#ifdef ORTHORNN_WITH_CUDA
  int now = 0;
  if (index_ >= 0 && cudaGetDevice(&now) == cudaSuccess && now != index_) cudaSetDevice(index_);
#endif
}

namespace {

/// Bytes that a caller lends. Throws ArgumentError for fewer than are needed.
std::size_t checked_bytes(void* workspace, std::int64_t given, std::size_t needed) {
  size_of("workspace_bytes", given, 0);
  if (static_cast<std::size_t>(given) < needed)
    throw ArgumentError(fmt::format("the workspace has {} bytes, expected {} or more", given, needed));
  if (needed > 0) not_null("workspace", static_cast<char*>(workspace));
  return static_cast<std::size_t>(given);
}

}  // namespace

Operation::Operation(const orthornn_device* device, void* workspace, std::int64_t given, std::size_t needed)
    : lent_(device_of(device), workspace, checked_bytes(workspace, given, needed)),
      stream_(device_of(device), device == nullptr ? nullptr : device->stream) {}

}  // namespace orthornn::c_api

using namespace orthornn;
using namespace orthornn::c_api;

int32_t orthornn_abi_version(void) { return ORTHORNN_ABI_VERSION; }

const char* orthornn_version(void) { return ORTHORNN_VERSION; }

const char* orthornn_last_message(void) { return is_memory_short ? no_memory : last_message.c_str(); }

int32_t orthornn_built_with_cuda(void) { return built_with_cuda() ? 1 : 0; }

orthornn_status orthornn_check_device(const orthornn_device* device) {
  return guarded(device, [&] { device_of(device); });
}

orthornn_status orthornn_synchronize(const orthornn_device* device) {
  return guarded(device, [&] {
    const Operation operation(device, nullptr, 0, 0);
    synchronize(device_of(device));
  });
}

int32_t orthornn_thread_count(void) { return thread_count(); }

orthornn_status orthornn_set_thread_count(int32_t count) {
  return guarded(nullptr, [&] { set_thread_count(static_cast<int>(size_of("count", count, 1))); });
}
