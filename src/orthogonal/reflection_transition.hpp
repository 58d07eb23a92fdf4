#pragma once

#include "linalg/gemm.hpp"
#include "orthogonal/reflectors.hpp"
#include "orthornn/orthogonal/transition.hpp"

namespace orthornn {

/// A transition whose parameters are reflection vectors V [L, N]: CWY in both forms and the sequential
/// product.
template <class T>
class ReflectionTransition : public Transition<T> {
 protected:
  ReflectionTransition(const Parameter& vectors, Init init, const Execution& execution);

  void draw(std::uint64_t seed, TensorView<T> vectors) const override;
  void find_parameters(ConstTensorView<T> q, TensorView<T> vectors) const override;
  Index reflections() const { return reflections_; }
  /// U, N x L.
  MatrixView<const T> u() const { return columns_of(units_); }
  /// Checks and normalises the parameters.
  void normalize(ConstTensorView<T> vectors);
  /// The gradient from what a rollout recorded (math.md section 1, "factored"): M = striu(Y Z^T),
  /// dU = -(G Z^T + H Y^T) + U (M + M^T).
  void backward_of_coefficients(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                                MatrixView<const T> y, TensorView<T> d_vectors);
  double flops_of_coefficients() const {
    const double n = static_cast<double>(this->hidden_size()), l = static_cast<double>(reflections_);
    return 12 * n * l + 2 * l * l;
  }
  /// From d_units_ to the gradient of the raw vectors.
  void finish_backward(TensorView<T> d_vectors) const {
    backward_of_normalize<T>(units_, norms_, d_units_, d_vectors);
  }

  Tensor<T> d_units_;

 private:
  Index reflections_;
  Init init_;
  Tensor<T> units_;
  Tensor<T> norms_;
  Tensor<T> coefficient_product_;
};

}  // namespace orthornn
