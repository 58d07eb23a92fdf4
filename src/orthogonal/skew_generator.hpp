#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// A = X - X^T in C order. Throws ValueError if it is not finite, or so large (|A|_1 eps >= 0.01) that
/// rounding errors would destroy its transform.
template <class T>
void skew_generator(ConstTensorView<T> x, TensorView<T> a);

/// A <- A^T.
template <class T>
void transpose_in_place(TensorView<T> a);

/// The gradient of X if A = X - X^T has the gradient d_a: d_a - d_a^T.
template <class T>
void backward_of_skew_generator(ConstTensorView<T> d_a, TensorView<T> d_x);

/// X = A / 2, from which X - X^T gives the skew-symmetric A again. In host memory.
template <class T>
void skew_parameters_of(const Eigen::MatrixXd& a, TensorView<T> x);

/// X [N, N] with entries from N(0, 1 / N). In host memory.
template <class T>
void draw_normal_skew_parameters(std::uint64_t seed, TensorView<T> x);

}  // namespace orthornn
