#pragma once

#include "cuda/delta/delta_work.hpp"

namespace orthornn::cuda {

/// As those of orthornn (src/delta), in device memory, for keys of at most 1024 numbers. Throw ValueError for
/// longer ones. Rows of padding are neither read nor written.
template <class T>
void recurrent_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results);
template <class T>
void recurrent_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients);

}  // namespace orthornn::cuda
