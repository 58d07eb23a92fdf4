#pragma once

#include "linalg/decompositions.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// The polar factor Omega = V (V^T V)^-1/2 of V [N, M], M <= N (docs/math.md, section 3.5). It is computed in
/// double and rounded once: the eigenvalues of V^T V have the squared condition of V.
template <class T>
class PolarFactor {
 public:
  PolarFactor(Index n, Index m, Device device);

  /// Throws ValueError where V has not M linearly independent finite columns; on a GPU, at the next
  /// synchronization.
  void prepare(ConstTensorView<T> v);
  TensorView<const T> omega() const { return omega_; }
  /// d_v may be d_omega.
  void backward(ConstTensorView<T> d_omega, TensorView<T> d_v);

 private:
  Tensor<T> omega_;                                       // [N, M]
  Tensor<double> v_, exact_, gradient_;                   // [N, M]: V, Omega, dOmega
  Tensor<double> vectors_, root_inverse_, left_, right_;  // [M, M]: E, (V^T V)^-1/2, workspace
  Tensor<double> eigenvalues_;                            // [M], of V^T V
  SymmetricEigenvectors solver_;
};

}  // namespace orthornn
