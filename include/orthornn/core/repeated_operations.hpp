#pragma once

#include <functional>
#include <memory>

#include "orthornn/core/device.hpp"

namespace orthornn {

namespace cuda {
class RecordedOperations;
}

/// Operations that are repeated on memory and sizes that stay, recorded as a CUDA graph. The first run starts
/// them one by one, because they may take memory; the second run records them, and from then on a run is one
/// launch. When memory of the device was taken or given back since, the next run is a first run again. On the
/// CPU every run calls them.
class RepeatedOperations {
 public:
  /// Makes an object without a recording, for operations on `device`.
  explicit RepeatedOperations(Device device);
  /// Takes over the recording of another object.
  RepeatedOperations(RepeatedOperations&&) noexcept;
  RepeatedOperations& operator=(RepeatedOperations&&) noexcept;
  ~RepeatedOperations();

  /// Runs the operations. They must be equal at each call, down to the addresses, unless `forget` was called
  /// in between. They must not wait for the GPU, which excludes transitions that are not `recordable`. A
  /// recorded run does nothing on the host: if `operations` also set something there, such as the shapes of
  /// tensors, and it may have changed since, call `forget` first. Within another recording they become part
  /// of that recording.
  void run(const std::function<void()>& operations);
  /// Drops the recording; the next run is a first run.
  void forget();

 private:
  std::unique_ptr<cuda::RecordedOperations> recorded_;
};

}  // namespace orthornn
