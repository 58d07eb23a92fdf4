#include "optim/stiefel_steps.hpp"

#include "core/for_each.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "linalg/inverse.hpp"
#include "pointwise/stiefel.hpp"

// The column-major view of a tensor [N, M] is the transpose of its matrix. So everything here is transposed:
// the view of D^T is M x N.

namespace orthornn {

template <class T>
StiefelSteps<T>::StiefelSteps(const Shape& shape, Device device, Retraction retraction)
    : n_(shape[0]),
      m_(shape[1]),
      product_(Shape{m_, m_}, device),
      matrix_(shape, device),
      workspace_(Shape{m_, m_}, device) {
  if (retraction != Retraction::cayley) return;
  frame_ = Tensor<T>(Shape{n_, 2 * m_}, device);
  core_ = Tensor<T>(Shape{2 * m_, 2 * m_}, device);
  inverse_ = Tensor<T>(core_.shape(), device);
  right_ = Tensor<T>(Shape{m_, 2 * m_}, device);
  coefficients_ = Tensor<T>(right_.shape(), device);
  pivots_ = Tensor<std::int64_t>(Shape{2 * m_}, device);
}

template <class T>
void StiefelSteps<T>::step(const StiefelSgd& options, TensorView<T> omega, TensorView<T> d) {
  make_generator(options.metric, omega, d);
  if (options.retraction == Retraction::cayley) return retract_cayley(omega, d, static_cast<T>(options.lr));
  make_tangent(omega, d);
  retract_qr(omega, d, static_cast<T>(options.lr));
}

template <class T>
void StiefelSteps<T>::make_generator(Metric metric, TensorView<const T> omega, TensorView<T> d) {
  if (metric == Metric::canonical) return;
  // D^T = G^T - (Omega^T G)^T Omega^T / 2.
  const auto product = columns_of(product_);
  gemm<T>(1, columns_of(omega), transposed(columns_of(d)), 0, product);
  gemm<T>(T{-0.5}, transposed(product), columns_of(omega), 1, columns_of(d));
}

template <class T>
void StiefelSteps<T>::make_tangent(TensorView<const T> omega, TensorView<T> d) {
  // Z^T = D^T - (Omega^T D) Omega^T.
  const auto product = columns_of(product_);
  gemm<T>(1, columns_of(omega), transposed(columns_of(d)), 0, product);
  gemm<T>(-1, product, columns_of(omega), 1, columns_of(d));
}

template <class T>
void StiefelSteps<T>::project(TensorView<const T> omega, TensorView<T> d) {
  make_generator(Metric::euclidean, omega, d);
  make_tangent(omega, d);
}

/// to <- R^-T from for from from^T = R^T R: Q^T of Y = Q R, where from = Y^T.
template <class T>
void StiefelSteps<T>::orthonormalize(MatrixView<T> from, MatrixView<T> to) {
  const auto r_inverse = columns_of(product_);
  gemm<T>(1, from, transposed(from), 0, r_inverse);
  invert_cholesky_factor<T>(r_inverse, columns_of(workspace_));
  gemm<T>(1, transposed(r_inverse), from, 0, to);
}

// A QR factorization is unique up to the signs of R's diagonal; with positive ones the result is a continuous
// function of `length` that starts at Omega. R is not singular: Omega^T Z is skew-symmetric, so
// Y^T Y = I + length^2 Z^T Z for Y = Omega - length Z. In floating point it can be, from length |Z| = 1 /
// sqrt(epsilon) on. The factor R of Cholesky leaves an error that grows
// with the square of the condition of Y. The second time that condition is 1 (Yamamoto, Nakatsukasa,
// Yanagisawa and Fukaya, "Roundoff error analysis of the CholeskyQR2 algorithm", ETNA 2015).
template <class T>
void StiefelSteps<T>::retract_qr(TensorView<T> omega, TensorView<const T> z, T length) {
  for_each(omega.device(), omega.size(), pointwise::Mix<T>{T{1}, -length, z.data(), omega.data()});
  orthonormalize(columns_of(omega), columns_of(matrix_));
  orthonormalize(columns_of(matrix_), columns_of(omega));
}

// The Cayley curve in 2M dimensions (Wen and Yin, lemma 4; Sherman-Morrison-Woodbury). With F =
// [length D, Omega] and J = [0 I; -I 0] of size 2M we have length A = F J F^T, so
//   (I + length/2 A)^-1 (I - length/2 A) Omega = Omega - F (I + J C / 2)^-1 J F^T Omega,  C = F^T F,
// where F^T Omega is the right half of C. An error in Omega's orthogonality is not amplified. The matrix to
// invert has the determinant of I + length/2 A, at least 1.
template <class T>
void StiefelSteps<T>::retract_cayley(TensorView<T> omega, TensorView<const T> d, T length) {
  const auto frame = columns_of(frame_), point = columns_of(omega);  // F^T and Omega^T
  const auto left = frame.block(0, 0, m_, n_), right = frame.block(m_, 0, m_, n_);
  for_each_entry(omega.device(), m_, n_,
                 pointwise::AssignScaledMatrix<T>{length, d.data(), m_, left.data, left.stride});
  for_each_entry(omega.device(), m_, n_,
                 pointwise::AssignScaledMatrix<T>{T{1}, omega.data(), m_, right.data, right.stride});
  gemm<T>(1, frame, transposed(frame), 0, columns_of(core_));
  for_each_entry(omega.device(), 2 * m_, 2 * m_,
                 pointwise::CayleyCore<T>{core_.data(), inverse_.data(), right_.data(), m_});
  invert_general<T>(columns_of(inverse_), columns_of(core_), pivots_.data());
  gemm<T>(1, columns_of(inverse_), columns_of(right_), 0, columns_of(coefficients_));
  gemm<T>(-1, transposed(columns_of(coefficients_)), frame, 1, point);
}

template <class T>
void StiefelSteps<T>::restore(TensorView<T> omega) {
  const auto point = columns_of(omega), product = columns_of(product_);
  gemm<T>(1, point, transposed(point), 0, product);
  copy<T>(omega, matrix_.view());
  gemm<T>(T{-0.5}, product, columns_of(matrix_), T{1.5}, point);
}

template class StiefelSteps<float>;
template class StiefelSteps<double>;

}  // namespace orthornn
