#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// to <- a + b, tensors of one shape; `to` may be a.
template <class T>
void sum(TensorView<const T> a, TensorView<const T> b, TensorView<T> to);

}  // namespace orthornn::cuda
