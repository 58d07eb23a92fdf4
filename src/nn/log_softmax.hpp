#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// y <- log softmax(y) of each row of y [R, C].
template <class T>
void log_softmax(TensorView<T> y);

}  // namespace orthornn
