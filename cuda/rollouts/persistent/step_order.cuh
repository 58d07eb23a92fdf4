#pragma once

#include "cuda/rollouts/rollout_arguments.hpp"

namespace orthornn::cuda {

/// The steps of a persistent rollout, numbered in the order in which they are made: from the first in time
/// forward, from the last backward.
template <Direction direction>
struct StepOrder {
  int length;
  /// Numbers from what lies at one step to what lies at the next.
  Index stride;

  explicit __device__ __forceinline__ StepOrder(const RolloutArguments<float>& arguments)
      : length(static_cast<int>(arguments.length)),
        stride((direction == Direction::forward ? 1 : -1) * arguments.batch * arguments.hidden_size) {}
  __device__ __forceinline__ int time(int step) const {
    return direction == Direction::forward ? step : length - 1 - step;
  }
};

}  // namespace orthornn::cuda
