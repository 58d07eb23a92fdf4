#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As orthornn::gradient_scale, from device memory to device memory; max_norm is not checked.
template <class T>
void gradient_scale(TensorView<const T> gradients, TensorView<const double> loss, double max_norm,
                    TensorView<double> scale);

}  // namespace orthornn::cuda
