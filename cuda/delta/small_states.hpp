#pragma once

#include "orthornn/delta/delta_product.hpp"

namespace orthornn::cuda {

/// The most numbers of keys and values in small states, which have kernels of their own.
inline constexpr Index largest_small_state = 16;

/// Whether `small_states` can go through this delta product: keys and values are short, and nothing decays a
/// state, changes its removals or its keys.
template <class T>
bool has_small_states(const DeltaProductInput<T>& input, const TokenLayout& layout,
                      const DeltaProductOptions& options);

/// The recurrent delta product of small states, as `recurrent_delta_product`. What the two keep differs, so
/// forward and backward must be of one kind.
template <class T>
void small_states(const DeltaProductInput<T>& input, const TokenLayout& layout,
                  const DeltaProductOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                  bool keep, Saved& saved);
template <class T>
void small_states_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                           Saved& saved);

}  // namespace orthornn::cuda
