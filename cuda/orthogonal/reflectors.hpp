#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

// As the functions of the same names in src/orthogonal/reflectors.hpp.

template <class T>
void normalize_reflectors(ConstTensorView<T> v, TensorView<T> u, TensorView<T> norms);

/// The largest N and L of small_reflection_matrix.
inline constexpr Index largest_small_reflectors = 32;
/// Unit reflectors and norms of V [L, N], S^-1 [L, L] column-major, and Q = I - U S^-1 U^T [N, N], in one
/// kernel: for such sizes, each of seven takes longer to start than to run.
template <class T>
void small_reflection_matrix(ConstTensorView<T> v, TensorView<T> u, TensorView<T> norms,
                             TensorView<T> s_inverse, TensorView<T> q);

template <class T>
void inverse_s_factor(MatrixView<const T> u, MatrixView<T> s_inverse);
template <class T>
void backward_of_normalize(ConstTensorView<T> u, ConstTensorView<T> norms, ConstTensorView<T> du,
                           TensorView<T> dv);

}  // namespace orthornn::cuda
