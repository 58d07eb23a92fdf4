#pragma once

#include "delta/delta_sizes.hpp"

namespace orthornn {

/// The recurrence of delta_product, one factor after another. With `keep` it pushes the states between
/// segments, and the backward computes those within a segment again.
template <class T>
void recurrent_delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                             const DeltaProductOptions& options, TensorView<T> outputs,
                             TensorView<T> final_states, bool keep, Saved& saved);

template <class T>
void recurrent_delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                      const DeltaProductOptions& options,
                                      const DeltaProductGradients<T>& gradients, Saved& saved);

}  // namespace orthornn
