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
  virtual void send_slot(void* to, std::size_t bytes) = 0;
  virtual void send(const void* from, void* to, std::size_t bytes) = 0;
  virtual void wait_until_sent() = 0;
};

std::unique_ptr<PinnedSlots> make_pinned_slots(Device device);

/// Page-locked memory of the host that a GPU reads. Any thread may call these. Throws DeviceError.
void* allocate_pinned(Device device, std::size_t bytes);
/// Waits for the GPU.
void release_pinned(Device device, void* memory) noexcept;

}  // namespace orthornn::cuda
