#include "orthornn/core/host_staging.hpp"

#include "core/back_end.hpp"
#include "cuda/core/pinned_slots.hpp"

namespace orthornn {

HostStaging::HostStaging() = default;
HostStaging::HostStaging(HostStaging&&) noexcept = default;
HostStaging& HostStaging::operator=(HostStaging&&) noexcept = default;
HostStaging::~HostStaging() = default;

void HostStaging::wait_until_sent() {
  if constexpr (has_cuda_bodies) {
    if (slots_) slots_->wait_until_sent();
  }
}

void* HostStaging::lock(Device reader, std::size_t bytes) {
  if constexpr (has_cuda_bodies) return cuda::allocate_pinned(reader, bytes);
  return nullptr;
}

void HostStaging::unlock(Device reader, void* memory) noexcept {
  if constexpr (has_cuda_bodies) cuda::release_pinned(reader, memory);
}

void HostStaging::use(Device device) {
  if constexpr (has_cuda_bodies) {
    if (slots_ && device == device_) return;
    slots_ = cuda::make_pinned_slots(device);
    device_ = device;
  }
}

void* HostStaging::next(Device device, std::size_t bytes) {
  use(device);
  if constexpr (has_cuda_bodies) return slots_->next(bytes);
  return nullptr;
}

void HostStaging::send_slot(void* to, std::size_t bytes) {
  if constexpr (has_cuda_bodies) slots_->send_slot(to, bytes);
}

void HostStaging::send(Device device, const void* from, void* to, std::size_t bytes) {
  use(device);
  if constexpr (has_cuda_bodies) slots_->send(from, to, bytes);
}

}  // namespace orthornn
