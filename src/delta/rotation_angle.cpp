#include "orthornn/delta/rotation_angle.hpp"

#include <algorithm>
#include <cmath>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

template <class T>
double product(TensorView<const T> a, TensorView<const T> b) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i) sum += static_cast<double>(a(i)) * static_cast<double>(b(i));
  return sum;
}

}  // namespace

template <class T>
std::optional<double> rotation_angle(const DeltaFactor<T>& first, const DeltaFactor<T>& second) {
  check_shape("the second key", second.key.shape(), {first.key.size()});
  const double squares[] = {product<T>(first.key, first.key), product<T>(second.key, second.key)};
  const double b1 = static_cast<double>(first.beta) * squares[0];
  const double b2 = static_cast<double>(second.beta) * squares[1];
  if (b1 == 0 || b2 == 0) return std::nullopt;
  const double dot = product<T>(first.key, second.key);
  const double squared_cosine = std::min(1.0, dot * dot / (squares[0] * squares[1]));
  // In the plane of the keys, eigenvalues are half the trace, plus and minus a root.
  const double determinant = (1 - b1) * (1 - b2);
  const double half_trace = 1 - (b1 + b2) / 2 + b1 * b2 * squared_cosine / 2;
  const double below_root = half_trace * half_trace - determinant;
  if (!(below_root < 0)) return std::nullopt;
  return std::atan2(std::sqrt(-below_root), half_trace);
}

template std::optional<double> rotation_angle<float>(const DeltaFactor<float>&, const DeltaFactor<float>&);
template std::optional<double> rotation_angle<double>(const DeltaFactor<double>&, const DeltaFactor<double>&);

}  // namespace orthornn
