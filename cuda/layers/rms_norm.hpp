#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// For vectors x [.., N]: scales [..] <- 1 / sqrt(mean(x^2) + epsilon), y [.., N] <- scale gain x.
template <class T>
void rms_norm_forward(TensorView<const T> x, TensorView<const T> gain, T epsilon, TensorView<T> scales,
                      TensorView<T> y);

/// d_y [.., N] becomes the terms of the gain's gradient, d_y scale x. d_x [.., N], unless it is empty, gets
/// (or is added) the gradient of x.
template <class T>
void rms_norm_backward(TensorView<const T> x, TensorView<const T> gain, TensorView<const T> scales,
                       TensorView<T> d_y, TensorView<T> d_x, bool adds);

}  // namespace orthornn::cuda
