#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As that of orthornn, in device memory.
template <class T>
void log_softmax(TensorView<T> y);

}  // namespace orthornn::cuda
