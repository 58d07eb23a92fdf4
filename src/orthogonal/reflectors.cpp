#include "orthogonal/reflectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/back_end.hpp"
#include "cuda/orthogonal/reflectors.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"
#include "orthogonal/checks.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
template <class T>
void normalize_reflectors(ConstTensorView<T> v, TensorView<T> u, TensorView<T> norms) {
  if constexpr (has_cuda_bodies) {
    if (u.device().is_cuda()) return cuda::normalize_reflectors<T>(v, u, norms);
  }
  const auto vectors = eigen(columns_of(v));
  auto units = eigen(columns_of(u));
  for (Index i = 0; i < vectors.cols(); ++i) {
    // Scaled by the largest entry, so that squares of very small or large entries neither underflow nor
    // overflow.
    const T largest = vectors.col(i).cwiseAbs().maxCoeff();
    const T norm = largest * (vectors.col(i) / largest).norm();
    if (!(norm > 0) || !std::isfinite(norm)) {
      throw ValueError(fmt::format("reflection vector {} is {}; every one needs a finite length above zero",
                                   i, vectors.col(i).isZero(0) ? "zero" : "not finite"));
    }
    norms(i) = norm;
    units.col(i) = vectors.col(i) / largest;
    units.col(i) *= largest / norm;
  }
}

template <class T>
void make_s_factor(MatrixView<const std::type_identity_t<T>> u, MatrixView<T> s) {
  if constexpr (has_cuda_bodies) {
    if (s.device.is_cuda()) return cuda::inverse_s_factor<T>(u, s);
  }
  gemm<T>(1, transposed(u), u, 0, s);
  eigen(s).diagonal().setConstant(T(0.5));
}

template <class T>
void backward_of_normalize(ConstTensorView<T> u, ConstTensorView<T> norms, ConstTensorView<T> du,
                           TensorView<T> dv) {
  if constexpr (has_cuda_bodies) {
    if (dv.device().is_cuda()) return cuda::backward_of_normalize<T>(u, norms, du, dv);
  }
  const auto units = eigen(columns_of(u));
  const auto gradients = eigen(columns_of(du));
  auto results = eigen(columns_of(dv));
  for (Index i = 0; i < units.cols(); ++i) {
    const T along = units.col(i).dot(gradients.col(i));
    results.col(i) = (gradients.col(i) - along * units.col(i)) / norms(i);
  }
}

template <class T>
void reflection_vectors_of(ConstTensorView<T> q, TensorView<T> v) {
  const Index count = v.shape()[0];
  const Index n = v.shape()[1];
  const double error = check_orthogonal<T>(q);
  // In double, and columns of Q are rows of the C-order tensor's transpose.
  Eigen::MatrixXd rest = eigen(columns_of(q)).template cast<double>().transpose();
  // The column farthest from its unit vector comes first, because rounding errors grow as one over the
  // distance. The loop ends when all columns are unit vectors up to the error and the rounding of q.
  const double unit_tolerance =
      std::sqrt(static_cast<double>(n)) * std::max(16.0 * std::numeric_limits<T>::epsilon(), 4 * error);
  Eigen::MatrixXd vectors(n, count);
  Eigen::RowVectorXd projection(n);
  Index used = 0;
  while (true) {
    Index i = 0;
    const double distance =
        std::sqrt((rest - Eigen::MatrixXd::Identity(n, n)).colwise().squaredNorm().maxCoeff(&i));
    if (distance <= unit_tolerance) break;
    if (used == count) {
      if (count == n) break;  // N reflections give every q: the rest is q's error
      throw ValueError(fmt::format("{} reflections do not reach this matrix: rank(I - Q) is larger", count));
    }
    Eigen::VectorXd vector = rest.col(i);
    // q_ii - 1 of a unit column; if q_ii is near 1, only the rounding error would remain of the subtraction.
    const double diagonal = vector(i);
    vector(i) = 0;
    vector(i) = diagonal > 0 ? -vector.squaredNorm() / (1 + diagonal) : diagonal - 1;
    vector.normalize();
    projection.noalias() = 2 * vector.transpose() * rest;
    rest.noalias() -= vector * projection;
    vectors.col(used++) = vector;
  }
  if ((count - used) % 2 != 0) {
    throw ValueError(fmt::format("{} reflections have determinant {}, the matrix has {}", count,
                                 count % 2 == 0 ? "+1" : "-1", count % 2 == 0 ? "-1" : "+1"));
  }
  for (Index i = used; i < count; ++i) vectors.col(i) = Eigen::VectorXd::Unit(n, ((i - used) / 2) % n);
  eigen(columns_of(v)) = vectors.cast<T>();
}

template <class T>
void reflection_vectors_of_columns(ConstTensorView<T> omega, TensorView<T> v) {
  check_orthogonal<T>(omega);
  const Index n = omega.shape()[0], count = omega.shape()[1];
  Eigen::MatrixXd rest = eigen(columns_of(omega)).template cast<double>().transpose();
  Eigen::RowVectorXd projection(count);
  for (Index i = 0; i < count; ++i) {
    Eigen::VectorXd vector = Eigen::VectorXd::Zero(n);
    auto tail = vector.tail(n - i);
    tail = rest.col(i).tail(n - i);
    const double diagonal = tail(0);
    tail(0) = 0;
    const double below = tail.squaredNorm();
    if (below == 0 && diagonal > 0) {
      // Column i is e_i already, so any reflection that leaves e_i and what came before will do.
      if (i == n - 1)
        throw ValueError(fmt::format("{} reflections have determinant {}, the matrix has {}", n,
                                     n % 2 == 0 ? "+1" : "-1", n % 2 == 0 ? "-1" : "+1"));
      tail(n - i - 1) = 1;
    } else {
      // Near e_i only a rounding error would remain of a subtraction.
      tail(0) = diagonal > 0 ? -below / (1 + diagonal) : diagonal - 1;
      vector.normalize();
    }
    projection.noalias() = 2 * vector.transpose() * rest;
    rest.noalias() -= vector * projection;
    for (Index k = 0; k < n; ++k) v(i, k) = static_cast<T>(vector(k));
  }
}

template <class T>
void haar_reflection_vectors(std::uint64_t seed, TensorView<T> v) {
  RandomStream random(seed, RandomPurpose::initialization);
  const MatrixView<T> vectors = columns_of(v);
  for (Index i = 0; i < vectors.cols; ++i) {
    double squares = 0;
    for (Index k = 0; k < vectors.rows; ++k) {
      const double x = k < i ? 0.0 : random.normal();
      vectors(k, i) = static_cast<T>(x);
      squares += x * x;
    }
    // The last of N vectors has one coordinate, so its reflection is the only choice.
    vectors(i, i) = i == vectors.rows - 1
                        ? T{1}
                        : static_cast<T>(static_cast<double>(vectors(i, i)) - std::sqrt(squares));
  }
}

#define ORTHORNN_INSTANTIATE(T)                                                                      \
  template void normalize_reflectors<T>(ConstTensorView<T>, TensorView<T>, TensorView<T>);           \
  template void make_s_factor<T>(MatrixView<const T>, MatrixView<T>);                                \
  template void backward_of_normalize<T>(ConstTensorView<T>, ConstTensorView<T>, ConstTensorView<T>, \
                                         TensorView<T>);                                             \
  template void reflection_vectors_of<T>(ConstTensorView<T>, TensorView<T>);                         \
  template void reflection_vectors_of_columns<T>(ConstTensorView<T>, TensorView<T>);                 \
  template void haar_reflection_vectors<T>(std::uint64_t, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
