#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

// As the functions of the same names in src/orthogonal/cayley_transform.hpp.

template <class T>
void cayley_transform_of(ConstTensorView<T> k, Index negative_signs, TensorView<T> q);
template <class T>
void times_signs(ConstTensorView<T> x, Index negative_signs, TensorView<T> result);

}  // namespace orthornn::cuda
