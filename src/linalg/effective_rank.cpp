#include "orthornn/linalg/effective_rank.hpp"

#include <fmt/format.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>

#include "orthornn/core/error.hpp"

namespace orthornn {

template <class T>
double effective_rank(TensorView<const T> x) {
  if (x.shape().rank() != 2)
    throw ShapeError(fmt::format("a matrix has shape {}, expected [M, N]", to_string(x.shape())));
  if (x.empty()) return 0;
  if (!std::ranges::all_of(x, [](T entry) { return std::isfinite(entry); }))
    throw ValueError("a matrix with numbers that are not finite has no singular values");
  using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Index rows = x.shape()[0], columns = x.shape()[1];
  // Rows or columns of zeros add singular values of zero, which do not count. A square matrix needs no QR
  // factorization first, which would take most of the time of compiling this file.
  const Index size = std::max(rows, columns);
  Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(size, size);
  matrix.topLeftCorner(rows, columns) =
      Eigen::Map<const RowMajor>(x.data(), rows, columns).template cast<double>();
  using Svd = Eigen::JacobiSVD<Eigen::MatrixXd, Eigen::NoQRPreconditioner>;
  const Eigen::VectorXd values = Svd(matrix).singularValues();
  const double sum = values.sum();
  if (sum == 0) return 0;
  double entropy = 0;
  for (const double value : values) {
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  }
  return std::exp(entropy);
}

template double effective_rank<float>(TensorView<const float>);
template double effective_rank<double>(TensorView<const double>);

}  // namespace orthornn
