#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "orthornn/core/tensor.hpp"

namespace orthornn::testing {

/// |x|_F, summed in double.
template <class X>
double frobenius_norm(const X& x) {
  double squares = 0;
  for (const auto value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

/// |found - expected|_F / max(|expected|_F, tiny) for tensors or views of one shape and any two scalars. NaN
/// when one is among them, which no bound lets through. Empty tensors agree.
template <class Found, class Expected>
double relative_error(const Found& found, const Expected& expected) {
  check_shape("found tensor", found.shape(), expected.shape());
  double squares = 0;
  const auto* f = found.begin();
  for (const auto* e = expected.begin(); e != expected.end(); ++e, ++f) {
    const double difference = static_cast<double>(*f) - static_cast<double>(*e);
    squares += difference * difference;
  }
  return std::sqrt(squares) / std::max(frobenius_norm(expected), std::numeric_limits<double>::min());
}

/// Are all elements the same, bit for bit (but for the sign of zero)? NaN equals nothing.
template <class Found, class Expected>
bool equal(const Found& found, const Expected& expected) {
  return found.shape() == expected.shape() && std::equal(found.begin(), found.end(), expected.begin());
}

}  // namespace orthornn::testing
