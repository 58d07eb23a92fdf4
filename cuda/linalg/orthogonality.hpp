#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As orthornn::orthogonality_error. Synchronizes.
template <class T>
double orthogonality_error(TensorView<const T> q);

}  // namespace orthornn::cuda
