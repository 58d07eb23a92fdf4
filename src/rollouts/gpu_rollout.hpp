#pragma once

#include "cuda/rollouts/rollout_arguments.hpp"
#include "orthornn/rollouts/rollout.hpp"

namespace orthornn {

/// rollout_forward and rollout_backward on a GPU, in the way that `rollout_way` gives. A stepwise loop is
/// recorded in `records`.
template <class T>
void gpu_rollout(cuda::Direction direction, const Transition<T>& transition,
                 const cuda::RolloutArguments<T>& arguments, const RolloutMemory<T>& memory,
                 RecordedLoops& records);

}  // namespace orthornn
