#pragma once

#include "orthornn/core/saved.hpp"

namespace orthornn::cuda {

/// As those of orthornn (src/layers/short_convolution.hpp).
template <class T>
void convolution_backward(TensorView<const T> d_z, TensorView<const T> filters,
                          TensorView<const std::int32_t> lengths, TensorView<const T> d_last,
                          TensorView<T> d_rows, TensorView<T> d_start);
template <class T>
void filter_gradient(TensorView<const T> rows, TensorView<const T> d_z, TensorView<T> d_filters,
                     Saved& scratch);

}  // namespace orthornn::cuda
