#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As those of orthornn, in device memory.
template <class T>
void apply_tanh(TensorView<T> x);
template <class T>
void apply_tanh_backward(TensorView<const T> y, TensorView<T> d);

}  // namespace orthornn::cuda
