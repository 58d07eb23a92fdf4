#include "orthornn/core/side_branch.hpp"

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {

SideBranch::SideBranch(Saved& saved, Saved& scratch) : device_(saved.device()) {
  // The CPU runs the branch in place, where memory may be used again at once.
  if (!device_.is_cuda()) return;
  saved_.emplace(saved);
  scratch_.emplace(scratch);
}

SideBranch::~SideBranch() {
  try {
    join();
  } catch (const DeviceError&) {
    return;  // CUDA has failed, which the next call says
  }
}

SideBranch::Inside::Inside(SideBranch& branch) : device_(branch.device_) {
  if constexpr (has_cuda_bodies) {
    if (!device_.is_cuda() || cuda::in_side_lane(device_)) return;
    cuda::enter_side_lane(device_);
    entered_ = branch.is_open_ = true;
  }
}

SideBranch::Inside::~Inside() {
  if constexpr (has_cuda_bodies) {
    if (entered_) cuda::leave_side_lane(device_);
  }
}

void SideBranch::join() {
  if constexpr (has_cuda_bodies) {
    if (is_open_) {
      is_open_ = false;
      cuda::join_side_lane(device_);
    }
  }
  scratch_.reset();
  saved_.reset();
}

}  // namespace orthornn
