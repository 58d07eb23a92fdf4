#pragma once

#include "orthornn/core/fields.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Riemannian gradient descent on the Stiefel manifold St(N, M) = {Omega [N, M]: Omega^T Omega = I}, M <= N:
/// the methods that T-CWY is compared with by Likhosherstov, Davis, Choromanski and Weller, "CWY
/// parametrization: a solution for parallelized optimization of orthogonal and Stiefel matrices", AISTATS
/// 2021.
///
/// With G [N, M] the gradient of the loss with respect to the entries of Omega, P = I - Omega Omega^T / 2 and
///
///     D = G    (canonical metric,  <X, Y> = tr(X^T P Y))
///     D = P G  (Euclidean metric,  <X, Y> = tr(X^T Y))
///
/// the Riemannian gradient is Z = A Omega with the skew-symmetric A = D Omega^T - Omega D^T (Tagare, "Notes
/// on optimization on Stiefel manifolds", 2011; docs/math.md, section 2.2), and a step of length lr goes
///
///     qr:      to the Q of Omega - lr Z = Q R, where R has a positive diagonal
///     cayley:  along the curve (I + lr/2 A)^-1 (I - lr/2 A) Omega
///              (Wen and Yin, "A feasible method for optimization with orthogonality constraints", 2013)
///
/// | name in the paper | metric | retraction |
/// |---|---|---|
/// | RGD-C-QR | canonical | qr |
/// | RGD-E-QR | euclidean | qr |
/// | RGD-C-C | canonical | cayley |
///
/// Euclidean with cayley is not in the paper, but as well defined: A is skew-symmetric for either metric.
/// Matrices lie on any device. Rgd and RgdAdam are the optimizers with these steps.
struct StiefelSgd {
  /// Metric of the manifold.
  enum class Metric {
    canonical,  ///< The metric `<X, Y> = tr(X^T P Y)`.
    euclidean   ///< The metric `<X, Y> = tr(X^T Y)`.
  };
  /// How a step stays on the manifold.
  enum class Retraction {
    qr,     ///< A step goes to the Q of a QR factorization.
    cayley  ///< A step goes along a Cayley curve.
  };

  /// Metric of the gradient.
  Metric metric = Metric::canonical;
  /// How a step stays on the manifold.
  Retraction retraction = Retraction::qr;
  /// Length of a step, above 0.
  double lr = 1e-3;

  /// Moves omega [N, M] by one step; `gradient` is G [N, M]. A qr step ends on the manifold
  /// wherever it starts, if lr times the norm of the gradient is far below 1 / sqrt(epsilon) of T and the
  /// columns of omega are independent. A cayley step keeps the distance of omega from the manifold up to
  /// rounding, which adds up over steps. Throws ShapeError unless both are [N, M] with N >= M >= 1,
  /// DeviceError unless they lie on one device, and ValueError unless lr is positive, the gradient finite and
  /// the point after the step as well; omega is then as it was. On a GPU it only starts the work, and no
  /// number is checked.
  template <class T>
  void step(TensorView<T> omega, ConstTensorView<T> gradient) const;
  /// Moves a tensor omega [N, M] by one step; `gradient` is G [N, M]. Throws as `step` of a view.
  template <class T>
  void step(Tensor<T>& omega, ConstTensorView<T> gradient) const {
    step<T>(omega.view(), gradient);
  }

  /// Writes the Riemannian gradient Z [N, M] to `result`, for omega on the manifold. `result` may be
  /// `gradient` itself. Throws as `step`.
  template <class T>
  void riemannian_gradient(ConstTensorView<T> omega, ConstTensorView<T> gradient, TensorView<T> result) const;
};

template <>
struct Names<StiefelSgd::Metric> {
  using enum StiefelSgd::Metric;
  static constexpr Choice<StiefelSgd::Metric> list[] = {{"canonical", canonical}, {"euclidean", euclidean}};
};
template <>
struct Names<StiefelSgd::Retraction> {
  using enum StiefelSgd::Retraction;
  static constexpr Choice<StiefelSgd::Retraction> list[] = {{"qr", qr}, {"cayley", cayley}};
};

}  // namespace orthornn
