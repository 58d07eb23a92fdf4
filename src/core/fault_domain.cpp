#include "orthornn/core/fault_domain.hpp"

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"

namespace orthornn {

FaultDomain::FaultDomain(Device device) : device_(device) {
  if constexpr (has_cuda_bodies) {
    if (device_.is_cuda()) number_ = cuda::take_fault_word(device_);
  }
}

FaultDomain::~FaultDomain() {
  if constexpr (has_cuda_bodies) {
    if (device_.is_cuda()) cuda::give_back_fault_word(device_, number_);
  }
}

FaultDomain::Scope::Scope(const FaultDomain& domain) : device_(domain.device_) {
  if constexpr (has_cuda_bodies) {
    if (device_.is_cuda()) before_ = cuda::use_fault_word(device_, domain.number_);
  }
}

FaultDomain::Scope::~Scope() {
  if constexpr (has_cuda_bodies) {
    if (device_.is_cuda()) cuda::use_fault_word(device_, before_);
  }
}

}  // namespace orthornn
