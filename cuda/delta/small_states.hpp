#pragma once

#include "cuda/delta/delta_work.hpp"

namespace orthornn::cuda {

/// The most numbers of keys and values in small states, which have kernels of their own.
inline constexpr Index largest_small_state = 16;

/// The recurrent delta product of small states, as `recurrent_delta_product`: without decays, removals and
/// `unit_keys`. What the two keep differs, so forward and backward must be of one kind. Numbers of tensors
/// are counted by int.
template <class T>
void small_states(const DeltaWork<T>& work, const DeltaResults<T>& results);
template <class T>
void small_states_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients);
/// What the two push, without the layout's table; and pushes what the forward keeps.
template <class T>
SavedMemory memory_of_small_states(const DeltaWork<T>& work);
template <class T>
void push_kept_small_states(const DeltaWork<T>& work);

}  // namespace orthornn::cuda
