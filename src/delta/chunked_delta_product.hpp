#pragma once

#include "delta/delta_sizes.hpp"

namespace orthornn {

/// delta_product in chunks of C micro-steps (docs/math.md, section 5.3). Only the states from chunk to chunk
/// are computed one after another. It pushes what the backward reads.
template <class T>
void chunked_delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<T> final_states, Saved& saved);

template <class T>
void chunked_delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                    const DeltaProductOptions& options,
                                    const DeltaProductGradients<T>& gradients, Saved& saved);

}  // namespace orthornn
