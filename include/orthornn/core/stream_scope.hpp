#pragma once

#include "orthornn/core/device.hpp"

namespace orthornn {

/// While it lives, operations of a GPU go to a stream of the caller, PyTorch's current one for example. Work
/// that either stream had before is done before what comes after, so nothing else need be synchronized.
/// Scopes may nest and end in reverse order. On the CPU it does nothing.
///
/// Not allowed: to begin or end a scope while operations are recorded (RepeatedOperations), or in the
/// caller's own capture of either stream; to destroy the stream before the scope ends; to use the device from
/// another thread meanwhile. A capture of the caller's may begin and end within a scope. Then no operation
/// may allocate or wait: run it directly once before, with the same sizes.
class StreamScope {
 public:
  /// `stream` is a cudaStream_t of the device; nullptr is CUDA's default stream. Throws DeviceError where
  /// that is not allowed.
  StreamScope(Device device, void* stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Device device_;
  void* before_ = nullptr;
};

}  // namespace orthornn
