#pragma once

#include "cuda/delta/delta_work.hpp"

namespace orthornn::cuda {

/// As those of orthornn (src/delta), in device memory, for keys of at most 1024 numbers. Throw ValueError for
/// longer ones. Rows of padding are neither read nor written.
template <class T>
void recurrent_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results);
template <class T>
void recurrent_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients);
/// What the two push, without the layout's table; and pushes what the forward keeps.
template <class T>
SavedMemory memory_of_recurrence(const DeltaWork<T>& work);
template <class T>
void push_kept_borders(const DeltaWork<T>& work);

}  // namespace orthornn::cuda
