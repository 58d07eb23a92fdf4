#pragma once

#include "orthornn/core/device.hpp"

namespace orthornn {

/// Sends the operations of a GPU to a stream of the caller, such as PyTorch's current one, while the scope
/// lives. Work that either stream had before is done before what comes after, so nothing else need be
/// synchronized, unless a stream is captured. Scopes may nest and end in reverse order. On the CPU a scope
/// does nothing.
///
/// A scope must not begin or end while operations are recorded (RepeatedOperations). The stream must not be
/// destroyed before the scope ends. No other thread may use the device during the scope.
///
/// The caller may capture the stream before the scope begins, to the end of the scope or longer, or begin and
/// end a capture within it. In a capture no operation may allocate or wait: run it once before, with equal
/// sizes. Operations share scratch memory of the device, so launches of the caller's graph and other
/// operations must come one after another, on one stream or by events.
class StreamScope {
 public:
  /// Begins a scope. `stream` is a cudaStream_t of the device; nullptr is CUDA's default stream. Throws
  /// DeviceError while operations are recorded.
  StreamScope(Device device, void* stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Device device_;
  void* before_ = nullptr;
};

}  // namespace orthornn
