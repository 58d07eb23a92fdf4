#pragma once

#include "cuda/cells/rollout_arguments.hpp"

namespace orthornn::cuda {

/// What a step is besides the transition's product, over all of B N at once.

/// h_last where a sequence has no step at all; before the first step forward.
template <class T>
void start_forward(const RolloutArguments<T>& arguments);
/// Slot t + 1 of the states from its argument, which the product has been added to, to h_{t+1}.
template <class T>
void finish_forward_step(const RolloutArguments<T>& arguments, Index t);
/// d_states of step t from what arrives, the product added, to g.
template <class T>
void finish_backward_step(const RolloutArguments<T>& arguments, Index t);
/// d_h0, which has the product of the first step; after the last step backward.
template <class T>
void end_backward(const RolloutArguments<T>& arguments);

}  // namespace orthornn::cuda
