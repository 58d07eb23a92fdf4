#pragma once

#include <functional>
#include <memory>

#include "orthornn/core/device.hpp"

namespace orthornn::cuda {

/// RepeatedOperations on a GPU.
class RecordedOperations {
 public:
  virtual ~RecordedOperations() = default;
  virtual void run(const std::function<void()>& operations) = 0;
  virtual void forget() = 0;
};

std::unique_ptr<RecordedOperations> make_recorded_operations(Device device);

}  // namespace orthornn::cuda
