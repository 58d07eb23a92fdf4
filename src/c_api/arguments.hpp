#pragma once
// What the functions of the C interface ask of their arguments, and how errors leave it.

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <type_traits>

#include "core/lent_memory.hpp"
#include "orthornn/c_api.h"
#include "orthornn/core/execution.hpp"
#include "orthornn/core/stream_scope.hpp"
#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn::c_api {

/// Half of an operation that has a gradient.
enum class Pass { forward, backward };

/// Error of an argument of a C function, before orthornn sees it.
class ArgumentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The status of the exception that is being handled; its message becomes that of `orthornn_last_message`.
orthornn_status status_of_exception() noexcept;

/// Lets one thread at a time use GPUs, whose streams and scratch memory the library's operations share, and
/// sets the current GPU of the calling thread back to the caller's at its end: orthornn leaves its own. Calls
/// for the CPU take no turn. They call no function of CUDA, since that could make a context on a GPU.
class CallersGpu {
 public:
  explicit CallersGpu(bool uses_gpu) noexcept;
  ~CallersGpu();
  CallersGpu(const CallersGpu&) = delete;
  CallersGpu& operator=(const CallersGpu&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> turn_;
  /// -1 where there is none.
  int index_ = -1;
};

/// Calls the body and returns the status of what it throws.
template <class Body>
orthornn_status guarded(bool uses_gpu, const Body& body) noexcept {
  const CallersGpu gpu(uses_gpu);
  try {
    body();
    return ORTHORNN_OK;
  } catch (...) {
    return status_of_exception();
  }
}

/// Calls the body of a function whose device this is; null is the CPU.
template <class Body>
orthornn_status guarded(const orthornn_device* device, const Body& body) noexcept {
  return guarded(device != nullptr && device->kind == ORTHORNN_CUDA, body);
}

/// What the pointer refers to. Throws ArgumentError for null.
template <class T>
T& not_null(const char* name, T* pointer) {
  if (pointer == nullptr) throw ArgumentError(fmt::format("{} is NULL", name));
  return *pointer;
}

/// Throws ArgumentError unless the size is `low` to `high`.
inline Index size_of(const char* name, std::int64_t size, Index low,
                     Index high = std::numeric_limits<Index>::max()) {
  if (size >= low && size <= high) return size;
  throw ArgumentError(high == std::numeric_limits<Index>::max()
                          ? fmt::format("{} is {}, expected {} or more", name, size, low)
                          : fmt::format("{} is {}, expected {} to {}", name, size, low, high));
}

/// The value of an enumeration of the C interface, whose values are 0 to `last` in the order of E.
template <class E>
E value_of(const char* name, std::int32_t value, E last) {
  if (value < 0 || value > static_cast<std::int32_t>(last)) {
    throw ArgumentError(
        fmt::format("{} is {}, expected 0 to {}", name, value, static_cast<std::int32_t>(last)));
  }
  return static_cast<E>(value);
}
inline Precision precision_of(std::int32_t value) { return value_of("precision", value, Precision::bf16); }
inline bool flag_of(const char* name, std::int32_t value) { return value_of(name, value, 1) == 1; }
/// Throws ArgumentError unless a member that means nothing yet is 0, so that it may mean something later.
inline void check_reserved(const char* name, std::int32_t value) { value_of(name, value, 0); }

/// Throws ArgumentError unless a tensor of the shape fits in 63 bits.
inline std::size_t bytes_of(const char* name, const Shape& shape, std::size_t element_bytes) {
  try {
    return shape.bytes(element_bytes);
  } catch (const ShapeError&) {
    throw ArgumentError(fmt::format("{} of shape {} has more bytes than fit in 63 bits; its sizes are wrong",
                                    name, to_string(shape)));
  }
}

/// The size N of matrices [N, N], 1 or more. Throws ArgumentError for another one, and where 64 matrices,
/// more than any workspace has, do not fit in 63 bits.
inline Index check_matrix_size(const char* name, std::int64_t size) {
  constexpr Index largest = (Index{1} << 27) - 1;
  return size_of(name, size, 1, largest);
}

/// The caller's array as a view. Throws ArgumentError for null, except for an array of no elements, and for
/// an address that is not a multiple of the element's size.
template <class T, class Void>
TensorView<T> view_of(const char* name, Void* array, const Shape& shape, Device device) {
  const std::size_t bytes = bytes_of(name, shape, sizeof(T));
  if (bytes > 0) not_null(name, static_cast<const char*>(static_cast<const void*>(array)));
  if (reinterpret_cast<std::uintptr_t>(array) % alignof(T) != 0) {
    throw ArgumentError(fmt::format("the address of {} is no multiple of {}, the alignment of its numbers",
                                    name, alignof(T)));
  }
  return TensorView<T>(static_cast<T*>(array), shape, device);
}
/// The same for an array that may be left out, which is an empty view then.
template <class T, class Void>
TensorView<T> optional_view(const char* name, Void* array, const Shape& shape, Device device) {
  if (array == nullptr) return TensorView<T>(nullptr, Shape{0}, device);
  return view_of<T>(name, array, shape, device);
}

/// The CPU for null. Throws ArgumentError, and DeviceError for a device that is not there.
Device device_of(const orthornn_device* device);

/// Calls body(std::type_identity<T>) for the type of numbers. Throws ArgumentError for another one.
template <class Body>
void with_real(std::int32_t dtype, const Body& body) {
  if (dtype == ORTHORNN_F32) return body(std::type_identity<float>());
  if (dtype == ORTHORNN_F64) return body(std::type_identity<double>());
  throw ArgumentError(
      fmt::format("dtype is {}, expected {} (f32) or {} (f64)", dtype, int{ORTHORNN_F32}, int{ORTHORNN_F64}));
}

/// Calls body(std::type_identity<T>) of a function with settings, which are called `name`, for their type of
/// numbers, and returns the status of what it throws.
template <class Settings, class Body>
orthornn_status guarded_real(const orthornn_device* device, const char* name, const Settings* settings,
                             const Body& body) noexcept {
  return guarded(device, [&] { with_real(not_null(name, settings).dtype, body); });
}

/// The stream and the workspace of the caller, while an operation runs.
class Operation {
 public:
  /// Throws ArgumentError for less workspace than is needed.
  Operation(const orthornn_device* device, void* workspace, std::int64_t given, std::size_t needed);

 private:
  LentMemory lent_;
  StreamScope stream_;
};

/// Bytes of the tensors that `make` makes on a device, as workspace for them.
template <class Make>
std::size_t planned_bytes(Device device, const Make& make) {
  PlannedMemory memory(device);
  make();
  return memory.needed();
}

/// Writes a number of bytes to an argument.
inline void set_bytes(std::int64_t* to, std::size_t bytes) {
  not_null("bytes", to) = static_cast<std::int64_t>(bytes);
}

}  // namespace orthornn::c_api
