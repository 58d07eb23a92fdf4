#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As the function of the same name in src/orthogonal/skew_generator.hpp.
template <class T>
void skew_generator(ConstTensorView<T> x, TensorView<T> a);

}  // namespace orthornn::cuda
