#include "orthornn/orthogonal/truncated_cwy.hpp"

#include <fmt/format.h>

#include "linalg/gemm.hpp"
#include "orthogonal/reflectors.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// x [.., M] and y [.., N] with as many vectors in one as in the other.
void check_pair(const Shape& x, const Shape& y, Index n, Index m) {
  if (x.rank() > 0 && y.rank() > 0 && x[-1] == m && y[-1] == n && x.count() / m == y.count() / n) return;
  throw ShapeError(fmt::format("x has shape {} and y {}; expected [.., {}] and [.., {}] with as many vectors",
                               to_string(x), to_string(y), m, n));
}

}  // namespace

template <class T>
TruncatedCwy<T>::TruncatedCwy(Index n, Index m) : n_(n), m_(m) {
  if (m < 1 || m > n) {
    throw ValueError(fmt::format("St({}, {}) was asked for; St(N, M) needs 1 <= M <= N", n, m));
  }
  norms_.resize({m});
  unit_reflectors_.resize({m, n});
  s_inverse_.resize({m, m});
  omega_.resize({n, m});
  left_.resize({m, n});
  right_.resize({m, m});
  small_.resize({m, m});
  product_.resize({m, m});
  d_units_.resize({m, n});
}

template <class T>
void TruncatedCwy<T>::initialize(std::uint64_t seed, TensorView<T> reflection_vectors) const {
  check_shape("reflection_vectors", reflection_vectors.shape(), parameter_shape());
  haar_reflection_vectors(seed, reflection_vectors);
}

template <class T>
void TruncatedCwy<T>::prepare(ConstTensorView<T> reflection_vectors) {
  check_shape("reflection_vectors", reflection_vectors.shape(), parameter_shape());
  normalize_reflectors<T>(reflection_vectors, unit_reflectors_, norms_);
  const auto u = columns_of(unit_reflectors_);
  inverse_s_factor<T>(u, columns_of(s_inverse_));
  // Omega^T = [I, 0] - (S^-1 U1^T)^T U^T, in the column-major view of Omega's C order.
  const auto u1 = u.block(0, 0, m_, m_);
  gemm<T>(1, u1, transposed(columns_of(s_inverse_)), 0, columns_of(small_));
  const auto omega_transposed = columns_of(omega_);
  gemm<T>(-1, columns_of(small_), transposed(u), 0, omega_transposed);
  for (Index i = 0; i < m_; ++i) omega_transposed(i, i) += T{1};
}

template <class T>
void TruncatedCwy<T>::apply(ConstTensorView<T> x, TensorView<T> y) const {
  check_pair(x.shape(), y.shape(), n_, m_);
  gemm<T>(1, transposed(columns_of(omega_)), columns_of(x), 0, columns_of(y));
}

template <class T>
void TruncatedCwy<T>::apply_transpose(ConstTensorView<T> y, TensorView<T> x) const {
  check_pair(x.shape(), y.shape(), n_, m_);
  gemm<T>(1, columns_of(omega_), columns_of(y), 0, columns_of(x));
}

template <class T>
void TruncatedCwy<T>::backward(ConstTensorView<T> d_omega, TensorView<T> d_reflection_vectors) {
  check_shape("d_omega", d_omega.shape(), {n_, m_});
  check_shape("d_reflection_vectors", d_reflection_vectors.shape(), parameter_shape());
  const auto u = columns_of(unit_reflectors_);
  const auto u1 = u.block(0, 0, m_, m_);
  const auto s_inverse = columns_of(s_inverse_);
  const auto d_omega_transposed = columns_of(d_omega);
  const auto by_u = columns_of(right_);  // dOmega^T U
  const auto by_u1 = columns_of(left_);  // dOmega U1
  const auto m = columns_of(small_);
  gemm<T>(1, d_omega_transposed, u, 0, by_u);
  gemm<T>(1, transposed(d_omega_transposed), u1, 0, by_u1);
  // dT = -U^T dOmega U1, then dS.
  gemm<T>(-1, transposed(by_u), u1, 0, m);
  backward_of_inverse<T>(s_inverse, m, columns_of(product_), m);
  symmetrize_strict_upper(m);
  // dU = -dOmega U1 S^-T + U (striu(dS) + striu(dS)^T), and -dOmega^T U S^-1 in its first M rows.
  gemm<T>(-1, by_u1, transposed(s_inverse), 0, columns_of(d_units_));
  gemm<T>(1, u, m, 1, columns_of(d_units_));
  gemm<T>(-1, by_u, s_inverse, 1, columns_of(d_units_).block(0, 0, m_, m_));
  backward_of_normalize<T>(unit_reflectors_, norms_, d_units_, d_reflection_vectors);
}

template class TruncatedCwy<float>;
template class TruncatedCwy<double>;

}  // namespace orthornn
