#pragma once

#include <functional>
#include <memory>

#include "orthornn/core/device.hpp"

namespace orthornn {

namespace cuda {
class RecordedOperations;
}

/// Operations that come again and again on memory and sizes that stay. A GPU gets them one by one the first
/// time, for then they may take memory; the second time they are recorded, and from then on they are one
/// launch. Where memory of the device has been taken or given back meanwhile, it begins anew. The CPU just
/// gets them.
class RepeatedOperations {
 public:
  explicit RepeatedOperations(Device device);
  RepeatedOperations(RepeatedOperations&&) noexcept;
  RepeatedOperations& operator=(RepeatedOperations&&) noexcept;
  ~RepeatedOperations();

  /// `operations` must be the same at each call, down to the addresses, unless `forget` came between. They
  /// must not wait for the GPU, which excludes transitions that are not `recordable`. A recorded run does
  /// nothing on the host: where `operations` leave something there (the shapes of tensors), and somebody may
  /// have changed it since, `forget` must come first. Within another recording they become part of that.
  void run(const std::function<void()>& operations);
  void forget();

 private:
  std::unique_ptr<cuda::RecordedOperations> recorded_;
};

}  // namespace orthornn
