#pragma once

#include <cstddef>
#include <memory>

#include "orthornn/core/device.hpp"

namespace orthornn::cuda {

/// HostStaging on a GPU.
class PinnedSlots {
 public:
  virtual ~PinnedSlots() = default;
  virtual void* next(std::size_t bytes) = 0;
  virtual void send(void* to, std::size_t bytes) = 0;
};

std::unique_ptr<PinnedSlots> make_pinned_slots(Device device);

}  // namespace orthornn::cuda
