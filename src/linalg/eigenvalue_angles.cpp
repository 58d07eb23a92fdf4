#include "orthornn/linalg/eigenvalue_angles.hpp"

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <complex>

#include "orthornn/core/error.hpp"

namespace orthornn {

template <class T>
std::vector<double> eigenvalue_angles(TensorView<const T> x) {
  const Shape& shape = x.shape();
  if (shape.rank() != 2 || shape[0] != shape[1])
    throw ShapeError(fmt::format("a matrix has shape {}, expected [N, N]", to_string(shape)));
  if (!std::ranges::all_of(x, [](T entry) { return std::isfinite(entry); }))
    throw ValueError("a matrix with numbers that are not finite has no eigenvalues");
  // In C order it is the transpose, which has the same eigenvalues.
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  const Eigen::MatrixXd matrix =
      Eigen::Map<const Matrix>(x.data(), shape[0], shape[0]).template cast<double>();
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(matrix, /*computeEigenvectors=*/false);
  if (solver.info() != Eigen::Success) throw ValueError("the eigenvalues of a matrix were not found");
  std::vector<double> angles;
  for (const std::complex<double>& value : solver.eigenvalues()) angles.push_back(std::arg(value));
  std::ranges::sort(angles);
  return angles;
}

template std::vector<double> eigenvalue_angles<float>(TensorView<const float>);
template std::vector<double> eigenvalue_angles<double>(TensorView<const double>);

}  // namespace orthornn
