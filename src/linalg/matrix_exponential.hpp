#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// exp(A), and its directional derivative L(A, E) = d/dt exp(A + tE) at t = 0, by scaling and squaring of the
/// Taylor polynomial of degree 16 (Paterson-Stockmeyer; |A| / 2^s <= 0.8 keeps the truncation below the
/// double's rounding). It needs only products: no linear solves, and no allocation after the first call.
template <class T>
class ExponentialOf {
 public:
  explicit ExponentialOf(Index n, Device device = Device::cpu());

  /// result <- exp(a), N x N, for a finite a. Each squaring doubles the rounding error: the result has few
  /// correct digits at norms near 0.01 / eps. On a GPU this and the derivative synchronize, because the norm
  /// decides the number of squarings.
  void value(MatrixView<const T> a, MatrixView<T> result);
  /// result <- L(a, e). The gradient of <G, exp(A)> with respect to A is L(A^T, G).
  void derivative(MatrixView<const T> a, MatrixView<const T> e, MatrixView<T> result);
  /// Squarings that the last call needed: each doubles the rounding error.
  int squarings() const { return squarings_; }

 private:
  /// A matrix and its derivative; without a derivative, the second has no data.
  struct Dual {
    MatrixView<T> value;
    MatrixView<T> derivative;
  };
  Dual workspace(Index i, bool with_derivative);
  static void multiply(const Dual& a, const Dual& b, const Dual& product);
  void run(const Dual& a, const Dual& result);

  Index n_;
  int squarings_ = 0;
  Tensor<T> memory_;
};

extern template class ExponentialOf<float>;
extern template class ExponentialOf<double>;

}  // namespace orthornn
