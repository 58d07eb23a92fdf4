#pragma once

#include "orthornn/core/device.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {

/// Throws ValueError for targets with weights on a GPU, whose losses have none yet.
inline void check_weighted_on(Device device) {
  if (!device.is_cuda()) return;
  throw ValueError(
      "targets with weights (class weights, missing target numbers) are not yet learned or evaluated on a "
      "GPU; "
      "use the CPU: --device cpu");
}

}  // namespace orthornn
