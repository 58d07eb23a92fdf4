#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As the function of the same name in src/orthogonal/scaled_cayley.cpp.
template <class T>
void cayley_transform_of(ConstTensorView<T> k, Index negative_signs, TensorView<T> q);

}  // namespace orthornn::cuda
