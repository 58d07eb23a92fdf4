#pragma once

#include <Eigen/Core>
#include <type_traits>

namespace orthornn {

/// Divides k by its norm and returns what it was multiplied by. A vector of zeros stays, and gives 0.
template <class Vector>
auto make_unit(Vector&& k) {
  using T = typename std::remove_cvref_t<Vector>::Scalar;
  // The largest entry first, so that no square overflows or underflows.
  const T largest = k.size() == 0 ? T{0} : k.cwiseAbs().maxCoeff();
  if (!(largest > T{0})) return T{0};
  k /= largest;
  const T norm = k.norm();
  k /= norm;
  return T{1} / norm / largest;
}

}  // namespace orthornn
