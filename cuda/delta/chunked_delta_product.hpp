#pragma once

#include "cuda/delta/delta_work.hpp"

namespace orthornn::cuda {

/// Whether this build has the kernels, and the GPU their instructions.
bool has_chunked_kernels(Device device);

/// As those of orthornn (src/delta), in device memory, for float and bfloat16. Need compute capability 9.0.
/// Throw ValueError for keys of more than 256 numbers, for more factors a token than a chunk has, and for
/// more than 65,535 heads or sequences, and where the vectors of a factor or the rows between two tokens are
/// too many for an int. Rows of padding are neither read nor written. The backward pops what the forward
/// kept.
template <class T>
void chunked_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results);
template <class T>
void chunked_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients);
/// What the two push, without the layout's table; and pushes what the forward keeps.
template <class T>
SavedMemory memory_of_chunks(const DeltaWork<T>& work);
template <class T>
void push_kept_chunks(const DeltaWork<T>& work);

}  // namespace orthornn::cuda
