#pragma once

#include "orthornn/core/execution.hpp"
#include "orthornn/core/tensor.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"

namespace orthornn {

/// T-CWY (docs/math.md, section 2.1): a point Omega of the Stiefel manifold St(N, M), M <= N, from M
/// reflection vectors V [M, N]. Omega = [I; 0] - U S^-1 U1^T is exactly the first M columns of the full CWY
/// matrix. It takes 4NM^2 + M^3 operations in host memory.
template <class T>
class TruncatedCwy final : public StiefelPoint<T> {
 public:
  /// Takes memory for St(n, m). Throws ValueError unless 1 <= m <= n.
  TruncatedCwy(Index n, Index m, const Execution& execution = {});

  /// Number N of rows of Omega.
  Index rows() const { return n_; }
  /// Number M of columns of Omega.
  Index cols() const { return m_; }
  /// Shape [M, N] of the reflection vectors.
  Shape parameter_shape() const { return {m_, n_}; }

  /// Draws reflection vectors with which Omega is uniform over St(N, M) (Stewart 1980). It computes on the
  /// host, wherever the vectors lie. Throws ShapeError.
  void initialize(std::uint64_t seed, TensorView<T> reflection_vectors) const override;
  /// Finds reflection vectors with which Omega is the given matrix omega [N, M]; it is a right inverse of
  /// `materialize`. It computes on the host, wherever the tensors lie. Throws ShapeError, and ValueError
  /// where the columns are not orthonormal and for a square omega whose determinant is not (-1)^N, which no
  /// vectors give.
  void parameters_of(ConstTensorView<T> omega, TensorView<T> reflection_vectors) const override;
  /// Forms Omega. Throws ShapeError, DeviceError for vectors on another device, and ValueError, with its
  /// index, for a reflection vector that is zero or not finite; on a GPU that ValueError comes from the next
  /// `synchronize` or copy to the host.
  void prepare(ConstTensorView<T> reflection_vectors) override;
  /// Writes Omega x for x [.., M] to y [.., N], in the execution's precision. Throws ShapeError.
  void apply(ConstTensorView<T> x, TensorView<T> y) const;
  /// Writes Omega^T y for y [.., N] to x [.., M], in the execution's precision. Throws ShapeError.
  void apply_transpose(ConstTensorView<T> y, TensorView<T> x) const;
  /// A copy of Omega [N, M].
  Tensor<T> materialize() const { return omega_.copy(); }
  /// View of Omega [N, M], valid until the next `prepare`.
  TensorView<const T> omega() const override { return omega_; }
  /// Computes the gradient with respect to V from d_omega [N, M]. Overwrites d_reflection_vectors. Throws
  /// ShapeError and DeviceError.
  void backward(ConstTensorView<T> d_omega, TensorView<T> d_reflection_vectors) override;

 private:
  Index n_;
  Index m_;
  Execution execution_;
  Tensor<T> norms_;
  Tensor<T> unit_reflectors_;  // U as [M, N]
  Tensor<T> s_;                // column-major S, on a GPU S^-1
  Tensor<T> z_;                // column-major Z = U1 S^-T
  Tensor<T> omega_;
  Tensor<T> d_omega_u_, d_units1_, d_s_, d_units_;  // workspace of backward
};

extern template class TruncatedCwy<float>;
extern template class TruncatedCwy<double>;

}  // namespace orthornn
