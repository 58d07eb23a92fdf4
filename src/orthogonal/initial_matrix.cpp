#include "orthogonal/initial_matrix.hpp"

#include <Eigen/QR>
#include <cmath>
#include <numbers>

#include "linalg/eigen_map.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

double rotation_angle(Init init, RandomStream& random) {
  if (init == Init::henaff) return random.uniform(-std::numbers::pi, std::numbers::pi);
  // The paper draws s = sqrt((1 - cos u) / (1 + cos u)), which is tan(u / 2): a rotation by u.
  return random.uniform(0, std::numbers::pi / 2);
}

}  // namespace

void initial_matrix(Init init, std::uint64_t seed, Index rank, int determinant, TensorView<double> q) {
  const Index n = q.shape()[0];
  RandomStream random(seed, RandomPurpose::initialization);
  auto matrix = eigen(columns_of(q));
  matrix.setIdentity();
  if (init == Init::haar || init == Init::normal) {
    // Q of a normal matrix, multiplied by the signs of R's diagonal, is uniform (Mezzadri 2007).
    Eigen::MatrixXd normal(n, n);
    for (double& x : normal.reshaped()) x = random.normal();
    const Eigen::HouseholderQR<Eigen::MatrixXd> decomposition(normal);
    matrix = decomposition.householderQ();
    int sign = 1;  // of the determinant, which each reflection and each change of a sign turns
    for (Index j = 0; j < n; ++j) {
      if (decomposition.hCoeffs()(j) != 0) sign = -sign;
      if (decomposition.matrixQR()(j, j) >= 0) continue;
      matrix.col(j) *= -1;
      sign = -sign;
    }
    if (sign != determinant) matrix.col(n - 1) *= -1;
    return;
  }
  // Rotations have determinant 1, so determinant -1 needs one more coordinate.
  const Index rotated = determinant > 0 ? rank : rank - 1;
  for (Index i = 0; i + 1 < rotated; i += 2) {
    const double angle = rotation_angle(init, random);
    q(i, i) = q(i + 1, i + 1) = std::cos(angle);
    q(i, i + 1) = -std::sin(angle);
    q(i + 1, i) = std::sin(angle);
  }
  if (determinant < 0) q(rank - 1, rank - 1) = -1;
}

}  // namespace orthornn
