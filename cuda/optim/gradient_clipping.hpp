#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As orthornn::clip_by_global_norm, with the norm left in device memory [1]; max_norm is not checked.
template <class T>
void clip_by_global_norm(TensorView<T> gradients, double max_norm, TensorView<double> norm);

}  // namespace orthornn::cuda
