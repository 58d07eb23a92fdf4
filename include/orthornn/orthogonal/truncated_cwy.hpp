#pragma once

#include "orthornn/core/execution.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// T-CWY (docs/math.md, section 2.1): a point Omega of the Stiefel manifold St(N, M), M <= N, from M
/// reflection vectors V [M, N]. Omega = [I; 0] - U S^-1 U1^T, exactly the first M columns of the full CWY
/// matrix. 4NM^2 + 7M^3/3 operations.
template <class T>
class TruncatedCwy {
 public:
  /// Throws ValueError unless 1 <= m <= n.
  TruncatedCwy(Index n, Index m, const Execution& execution = {});

  Index rows() const { return n_; }
  Index cols() const { return m_; }
  /// [M, N]
  Shape parameter_shape() const { return {m_, n_}; }

  /// Uniform over St(N, M) (Stewart 1980); computed on the host, wherever the vectors lie.
  void initialize(std::uint64_t seed, TensorView<T> reflection_vectors) const;
  /// Throws ShapeError, and ValueError naming a reflection vector that is zero or not finite; on a GPU this
  /// comes from the next `synchronize` or copy to the host.
  void prepare(ConstTensorView<T> reflection_vectors);
  /// y [.., N] = Omega x for x [.., M] in the execution's precision; overwrites. Throws ShapeError, as does
  /// the transpose.
  void apply(ConstTensorView<T> x, TensorView<T> y) const;
  /// x [.., M] = Omega^T y for y [.., N]; overwrites.
  void apply_transpose(ConstTensorView<T> y, TensorView<T> x) const;
  /// Omega [N, M].
  Tensor<T> materialize() const { return omega_.copy(); }
  TensorView<const T> omega() const { return omega_; }
  /// Gradient with respect to V from d_omega [N, M]; overwrites.
  void backward(ConstTensorView<T> d_omega, TensorView<T> d_reflection_vectors);

 private:
  Index n_;
  Index m_;
  Execution execution_;
  Tensor<T> norms_;
  Tensor<T> unit_reflectors_;  // U as [M, N]
  Tensor<T> s_inverse_;        // column-major S^-1
  Tensor<T> omega_;
  Tensor<T> left_, right_, small_, product_, d_units_;  // workspace of prepare and backward
};

extern template class TruncatedCwy<float>;
extern template class TruncatedCwy<double>;

}  // namespace orthornn
