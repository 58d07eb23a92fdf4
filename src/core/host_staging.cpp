#include "orthornn/core/host_staging.hpp"

#include "core/back_end.hpp"
#include "cuda/core/pinned_slots.hpp"

namespace orthornn {

HostStaging::HostStaging() = default;
HostStaging::HostStaging(HostStaging&&) noexcept = default;
HostStaging& HostStaging::operator=(HostStaging&&) noexcept = default;
HostStaging::~HostStaging() = default;

void* HostStaging::next(Device device, std::size_t bytes) {
  if constexpr (has_cuda_bodies) {
    if (!slots_ || device != device_) {
      slots_ = cuda::make_pinned_slots(device);
      device_ = device;
    }
    return slots_->next(bytes);
  }
  return nullptr;
}

void HostStaging::send(void* to, std::size_t bytes) {
  if constexpr (has_cuda_bodies) slots_->send(to, bytes);
}

}  // namespace orthornn
