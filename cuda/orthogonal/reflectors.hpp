#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

// As the functions of the same names in src/orthogonal/reflectors.hpp.

template <class T>
void normalize_reflectors(ConstTensorView<T> v, TensorView<T> u, TensorView<T> norms);
template <class T>
void inverse_s_factor(MatrixView<const T> u, MatrixView<T> s_inverse);
template <class T>
void backward_of_normalize(ConstTensorView<T> u, ConstTensorView<T> norms, ConstTensorView<T> du,
                           TensorView<T> dv);

}  // namespace orthornn::cuda
