#include "orthornn/core/repeated_operations.hpp"

#include "core/back_end.hpp"
#include "cuda/core/recorded_operations.hpp"

namespace orthornn {

RepeatedOperations::RepeatedOperations(Device device) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) recorded_ = cuda::make_recorded_operations(device);
  }
}

RepeatedOperations::RepeatedOperations(RepeatedOperations&&) noexcept = default;
RepeatedOperations& RepeatedOperations::operator=(RepeatedOperations&&) noexcept = default;
RepeatedOperations::~RepeatedOperations() = default;

void RepeatedOperations::run(const std::function<void()>& operations) {
  recorded_ ? recorded_->run(operations) : operations();
}

void RepeatedOperations::forget() {
  if (recorded_) recorded_->forget();
}

}  // namespace orthornn
