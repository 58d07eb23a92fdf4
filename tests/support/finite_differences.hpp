#pragma once

#include <algorithm>
#include <cmath>

#include "orthornn/core/tensor.hpp"

namespace orthornn::testing {

/// Central differences have a truncation error of h^2 and a rounding error of eps / h: least at the third
/// root of eps.
inline constexpr double difference_step = 6.06e-6;

/// Gradient of the number `loss()` with respect to x, entry by entry. x is changed in place and put back.
template <class Loss>
Tensor<double> finite_differences(TensorView<double> x, const Loss& loss) {
  Tensor<double> gradient(x.shape());
  double* result = gradient.begin();
  for (double& entry : x) {
    const double before = entry;
    const double step = difference_step * std::max(1.0, std::abs(before));
    entry = before + step;
    const double high = entry;
    const double above = loss();
    entry = before - step;
    const double low = entry;
    const double below = loss();
    entry = before;
    // The step as it was rounded, not as it was meant.
    *result++ = (above - below) / (high - low);
  }
  return gradient;
}

/// Derivative of `loss()` along a direction of the shape of x: for x with too many entries to take one by
/// one.
template <class Loss>
double directional_difference(TensorView<double> x, const Tensor<double>& direction, const Loss& loss) {
  const Tensor<double> before = [&] {
    Tensor<double> values(x.shape());
    std::copy(x.begin(), x.end(), values.begin());
    return values;
  }();
  const auto moved = [&](double step) {
    for (Index i = 0; i < x.size(); ++i) x.begin()[i] = before.begin()[i] + step * direction.begin()[i];
    return loss();
  };
  const double above = moved(difference_step);
  const double below = moved(-difference_step);
  std::copy(before.begin(), before.end(), x.begin());
  return (above - below) / (2 * difference_step);
}

/// <a, b>
template <class A, class B>
double inner_product(const A& a, const B& b) {
  double sum = 0;
  const auto* y = b.begin();
  for (const auto* x = a.begin(); x != a.end(); ++x, ++y)
    sum += static_cast<double>(*x) * static_cast<double>(*y);
  return sum;
}

}  // namespace orthornn::testing
