#pragma once

#include "orthornn/core/device.hpp"

namespace orthornn::testing {

/// Starts a rollout over the grid of a GPU, of which one block does nothing for a minute.
void start_rollout_with_stuck_block(Device device);

}  // namespace orthornn::testing
