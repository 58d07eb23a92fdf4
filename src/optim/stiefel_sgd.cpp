#include "orthornn/optim/stiefel_sgd.hpp"

#include <fmt/format.h>

#include <Eigen/QR>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/back_end.hpp"
#include "linalg/gemm.hpp"
#include "linalg/inverse.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
MatrixView<const T> view(const Matrix<T>& matrix) {
  return {matrix.data(), matrix.rows(), matrix.cols(), matrix.rows()};
}
template <class T>
MatrixView<T> view(Matrix<T>& matrix) {
  return {matrix.data(), matrix.rows(), matrix.cols(), matrix.rows()};
}

/// a^T b.
template <class T>
Matrix<T> inner_products(const Matrix<T>& a, const Matrix<T>& b) {
  Matrix<T> result(a.cols(), b.cols());
  gemm<T>(1, transposed(view(a)), view(b), 0, view(result));
  return result;
}
/// a - b c.
template <class T>
Matrix<T> minus_product(Matrix<T> a, const Matrix<T>& b, const Matrix<T>& c) {
  gemm<T>(-1, view(b), view(c), 1, view(a));
  return a;
}

// [N, M] in C order: the papers' N x M matrix, row by row.
template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
Eigen::Map<RowMajor<T>> matrix(TensorView<T> tensor) {
  return {tensor.data(), tensor.shape()[0], tensor.shape()[1]};
}

template <class T>
Eigen::Map<const RowMajor<T>> matrix(TensorView<const T> tensor) {
  return {tensor.data(), tensor.shape()[0], tensor.shape()[1]};
}

template <class T>
void check(const StiefelSgd& options, TensorView<const T> omega, TensorView<const T> gradient) {
  require_host_memory("Stiefel descent", omega.device());
  require_host_memory("Stiefel descent", gradient.device());
  const Shape& shape = omega.shape();
  if (shape.rank() != 2 || shape[1] < 1 || shape[0] < shape[1]) {
    throw ShapeError(fmt::format("omega has shape {}, expected [N, M] with N >= M >= 1", to_string(shape)));
  }
  check_shape("gradient of omega", gradient.shape(), shape);
  if (!(options.lr > 0 && std::isfinite(options.lr))) {
    throw ValueError(fmt::format("Stiefel descent: lr is {}; expected a positive number", options.lr));
  }
  if (!matrix(gradient).allFinite()) throw ValueError("Stiefel descent: the gradient of omega is not finite");
}

// D, from which A = D Omega^T - Omega D^T.
template <class T>
Matrix<T> generator(StiefelSgd::Metric metric, const Matrix<T>& omega, const Matrix<T>& gradient) {
  if (metric == StiefelSgd::Metric::canonical) return gradient;
  const Matrix<T> half = inner_products(omega, gradient) / T{2};
  return minus_product(gradient, omega, half);
}

// Z = A Omega, where Omega^T Omega = I.
template <class T>
Matrix<T> tangent(const Matrix<T>& generator, const Matrix<T>& omega) {
  return minus_product(generator, omega, inner_products(generator, omega));
}

// qf(Omega - lr Z). A QR factorization is unique up to the signs of R's diagonal; with positive ones
// the result is a continuous function of lr that starts at Omega. R is never singular: Omega^T Z is
// skew-symmetric, so (Omega - lr Z)^T (Omega - lr Z) = I + lr^2 Z^T Z.
template <class T>
Matrix<T> retract_qr(const Matrix<T>& omega, const Matrix<T>& generator, T lr) {
  const Matrix<T> point = omega - lr * tangent<T>(generator, omega);
  const Eigen::HouseholderQR<Matrix<T>> qr(point);
  Matrix<T> result = Matrix<T>::Identity(omega.rows(), omega.cols());
  result.applyOnTheLeft(qr.householderQ());
  for (Eigen::Index j = 0; j < omega.cols(); ++j) {
    if (qr.matrixQR()(j, j) < 0) result.col(j) = -result.col(j);
  }
  return result;
}

// The Cayley curve in 2M dimensions (Wen and Yin, lemma 4; Sherman-Morrison-Woodbury). With K = [lr D, Omega]
// and J = [0 I; -I 0] of size 2M we have lr A = K J K^T, so
//   (I + lr/2 A)^-1 (I - lr/2 A) Omega = Omega - K (I + J C / 2)^-1 J K^T Omega,  C = K^T K,
// where K^T Omega is the right half of C. That holds for every Omega, orthogonal or not. An error in Omega's
// orthogonality is not amplified. The matrix to invert has the determinant of I + lr/2 A, at least 1.
template <class T>
Matrix<T> retract_cayley(const Matrix<T>& omega, const Matrix<T>& generator, T lr) {
  const Eigen::Index m = omega.cols();
  Matrix<T> k(omega.rows(), 2 * m);
  k << lr * generator, omega;
  const Matrix<T> c = inner_products(k, k);
  Matrix<T> jc(2 * m, 2 * m);
  jc << c.bottomRows(m), -c.topRows(m);
  Matrix<T> inverse = Matrix<T>::Identity(2 * m, 2 * m) + jc / T{2}, workspace(2 * m, 2 * m);
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(2 * m));
  invert_general<T>(view(inverse), view(workspace), pivots.data());
  const Matrix<T> right = jc.rightCols(m);
  Matrix<T> coefficients(2 * m, m);
  gemm<T>(1, view(inverse), view(right), 0, view(coefficients));
  return minus_product(omega, k, coefficients);
}

}  // namespace

template <class T>
void StiefelSgd::step(TensorView<T> omega, ConstTensorView<T> gradient) const {
  check<T>(*this, omega, gradient);
  const Matrix<T> point = matrix<T>(omega);
  const Matrix<T> direction = generator<T>(metric, point, matrix(gradient));
  switch (retraction) {
    case Retraction::qr:
      matrix<T>(omega) = retract_qr<T>(point, direction, static_cast<T>(lr));
      return;
    case Retraction::cayley:
      matrix<T>(omega) = retract_cayley<T>(point, direction, static_cast<T>(lr));
      return;
  }
}

template <class T>
void StiefelSgd::riemannian_gradient(ConstTensorView<T> omega, ConstTensorView<T> gradient,
                                     TensorView<T> result) const {
  check<T>(*this, omega, gradient);
  check_shape("Riemannian gradient", result.shape(), omega.shape());
  const Matrix<T> point = matrix(omega);
  matrix<T>(result) = tangent<T>(generator<T>(metric, point, matrix(gradient)), point);
}

template void StiefelSgd::step(TensorView<float>, TensorView<const float>) const;
template void StiefelSgd::step(TensorView<double>, TensorView<const double>) const;
template void StiefelSgd::riemannian_gradient(TensorView<const float>, TensorView<const float>,
                                              TensorView<float>) const;
template void StiefelSgd::riemannian_gradient(TensorView<const double>, TensorView<const double>,
                                              TensorView<double>) const;

}  // namespace orthornn
