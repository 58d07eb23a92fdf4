#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// x <- tanh(x)
template <class T>
void apply_tanh(TensorView<T> x);

/// Its backward from y = tanh(x): d <- (1 - y^2) d.
template <class T>
void apply_tanh_backward(TensorView<const T> y, TensorView<T> d);

}  // namespace orthornn
