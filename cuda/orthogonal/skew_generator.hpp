#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

// As the functions of the same names in src/orthogonal/skew_generator.hpp.

template <class T>
void skew_generator(ConstTensorView<T> x, TensorView<T> a);
template <class T>
void transpose_in_place(TensorView<T> a);
template <class T>
void backward_of_skew_generator(ConstTensorView<T> d_a, TensorView<T> d_x);

}  // namespace orthornn::cuda
