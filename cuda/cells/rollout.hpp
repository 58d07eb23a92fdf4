#pragma once

#include <memory>

#include "cuda/cells/rollout_arguments.hpp"
#include "orthornn/cells/rollout.hpp"

namespace orthornn::cuda {

/// orthornn::rollout_forward by the given way, which is not `automatic` and takes these sizes
/// (src/cells/rollout_way.cpp).
template <class T>
void rollout_forward(const Transition<T>& transition, RolloutWay way, const RolloutArguments<T>& arguments,
                     const RolloutMemory<T>& memory, RecordedLoops& records);
template <class T>
void rollout_backward(const Transition<T>& transition, RolloutWay way, const RolloutArguments<T>& arguments,
                      const RolloutMemory<T>& memory, RecordedLoops& records);

}  // namespace orthornn::cuda
