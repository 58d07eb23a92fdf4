#pragma once

#include "orthornn/delta/delta_product.hpp"

namespace orthornn::cuda {

/// As those of orthornn (src/delta), in device memory, for keys of at most 1024 numbers. Throw ValueError for
/// longer ones. Rows of padding are neither read nor written.
template <class T>
void recurrent_delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                             const DeltaProductOptions& options, TensorView<T> outputs,
                             TensorView<T> final_states, bool keep, Saved& saved);
template <class T>
void recurrent_delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                      const DeltaProductOptions& options,
                                      const DeltaProductGradients<T>& gradients, Saved& saved);

}  // namespace orthornn::cuda
