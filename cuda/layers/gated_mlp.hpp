#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// inner [.., M] <- SiLU(a) c for rows [a; c] of [.., 2 M].
template <class T>
void gate(TensorView<const T> rows, TensorView<T> inner);

/// d_rows [.., 2 M] <- its gradient from d_inner [.., M].
template <class T>
void gate_backward(TensorView<const T> rows, TensorView<const T> d_inner, TensorView<T> d_rows);

}  // namespace orthornn::cuda
