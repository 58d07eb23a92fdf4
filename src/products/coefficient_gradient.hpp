#pragma once

#include "orthornn/products/product.hpp"

namespace orthornn {

/// The gradient of unit reflectors from the coefficients that a rollout recorded (docs/math.md, section 1.7):
/// M = striu(Y Z^T), dU = -(G Z^T + H Y^T) + U (M + M^T).
template <class T>
class CoefficientGradient {
 public:
  explicit CoefficientGradient(Device device) : coefficient_product_({0}, device), d_units_({0}, device) {}

  /// For units [L, N]; g and h are N x n, z and y L x n. The result is valid until the next call.
  Factors<T> of(TensorView<const T> units, MatrixView<const T> g, MatrixView<const T> h,
                MatrixView<const T> z, MatrixView<const T> y, Precision precision);

 private:
  Tensor<T> coefficient_product_, d_units_;
};

}  // namespace orthornn
