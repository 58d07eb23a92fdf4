#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"
#include "orthornn/linalg/matrix_view.hpp"
#include "orthornn/optim/stiefel_sgd.hpp"

namespace orthornn {

/// The formulas of steps on St(N, M) (docs/math.md, section 2.2), for matrices of one size and device, in
/// memory that is taken once. Points, gradients and directions are [N, M].
template <class T>
class StiefelSteps {
 public:
  using Metric = StiefelSgd::Metric;
  using Retraction = StiefelSgd::Retraction;

  StiefelSteps(const Shape& shape, Device device, Retraction retraction);

  /// A step of StiefelSgd, whose retraction is that of these steps; d is the gradient, and is overwritten.
  void step(const StiefelSgd& options, TensorView<T> omega, TensorView<T> d);

  /// d <- D of the gradient d, from which A = D Omega^T - Omega D^T.
  void make_generator(Metric metric, TensorView<const T> omega, TensorView<T> d);
  /// d <- Z = A Omega, the tangent of the generator d, where Omega^T Omega = I.
  void make_tangent(TensorView<const T> omega, TensorView<T> d);
  /// d <- its orthogonal projection on the tangent space at Omega.
  void project(TensorView<const T> omega, TensorView<T> d);

  /// omega <- the Q of Omega - length Z.
  void retract_qr(TensorView<T> omega, TensorView<const T> z, T length);
  /// omega <- the point (I + length/2 A)^-1 (I - length/2 A) Omega of the curve, where A is that of the
  /// generator d. Holds for every omega, orthogonal or not.
  void retract_cayley(TensorView<T> omega, TensorView<const T> d, T length);
  /// omega <- Omega (3 I - Omega^T Omega) / 2, which replaces a small error e of its orthogonality by 3/4 e^2
  /// (Newton and Schulz).
  void restore(TensorView<T> omega);

 private:
  void orthonormalize(MatrixView<T> from, MatrixView<T> to);

  Index n_, m_;
  Tensor<T> product_;                                        // [M, M]
  Tensor<T> matrix_;                                         // [N, M]
  Tensor<T> workspace_;                                      // [M, M], or [2M, 2M]
  Tensor<T> frame_, core_, inverse_, right_, coefficients_;  // of Cayley
  Tensor<std::int64_t> pivots_;
};

}  // namespace orthornn
