#pragma once

#include "orthornn/delta/delta_product.hpp"

namespace orthornn::cuda {

/// Whether this build has the kernels, and the GPU their instructions.
bool has_chunked_kernels(Device device);

/// As those of orthornn (src/delta), in device memory, for float and bfloat16. Need compute capability 9.0.
/// Throw ValueError for keys of more than 256 numbers, for more micro-steps a token than a chunk has, and for
/// more than 65,535 heads or sequences, and where the vectors of a micro-step or the rows between two tokens
/// are too many for an int. Rows of padding are neither read nor written. The backward pops what the forward
/// kept.
template <class T>
void chunked_delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<float> final_states, bool keep, Saved& saved);
template <class T>
void chunked_delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                                    const DeltaProductOptions& options,
                                    const DeltaProductGradients<T>& gradients, Saved& saved);

}  // namespace orthornn::cuda
