#include "orthornn/orthogonal/truncated_cwy.hpp"

#include <fmt/format.h>

#include "core/fill_on_host.hpp"
#include "core/host_copy.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "linalg/s_factor.hpp"
#include "orthogonal/checks.hpp"
#include "orthogonal/reflectors.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// x [.., M] and y [.., N], with the same number of vectors.
void check_pair(const Shape& x, const Shape& y, Index n, Index m) {
  if (x.rank() > 0 && y.rank() > 0 && x[-1] == m && y[-1] == n && x.count() / m == y.count() / n) return;
  throw ShapeError(fmt::format("x has shape {} and y {}; expected [.., {}] and [.., {}] with as many vectors",
                               to_string(x), to_string(y), m, n));
}

}  // namespace

template <class T>
TruncatedCwy<T>::TruncatedCwy(Index n, Index m, const Execution& execution)
    : n_(n), m_(m), execution_(execution) {
  stiefel_parameter(StiefelKind::truncated_cwy, n, m);  // which checks them
  const auto zeros = [&](const Shape& shape) { return Tensor<T>(shape, execution.device); };
  norms_ = zeros({m});
  unit_reflectors_ = zeros({m, n});
  s_ = zeros({m, m});
  z_ = zeros({m, m});
  omega_ = zeros({n, m});
  d_omega_u_ = zeros({m, m});
  d_units1_ = zeros({m, m});
  d_s_ = zeros({m, m});
  d_units_ = zeros({m, n});
}

template <class T>
void TruncatedCwy<T>::initialize(std::uint64_t seed, TensorView<T> reflection_vectors) const {
  check_shape("reflection_vectors", reflection_vectors.shape(), parameter_shape());
  fill_on_host(reflection_vectors, [&](TensorView<T> vectors) { haar_reflection_vectors(seed, vectors); });
}

template <class T>
void TruncatedCwy<T>::parameters_of(ConstTensorView<T> omega, TensorView<T> reflection_vectors) const {
  check_shape("omega", omega.shape(), {n_, m_});
  check_shape("reflection_vectors", reflection_vectors.shape(), parameter_shape());
  const Tensor<T> on_host = host_copy(omega);
  fill_on_host(reflection_vectors,
               [&](TensorView<T> vectors) { reflection_vectors_of_columns<T>(on_host, vectors); });
}

template <class T>
void TruncatedCwy<T>::prepare(ConstTensorView<T> reflection_vectors) {
  check_tensor("reflection_vectors", reflection_vectors, parameter_shape(), execution_.device);
  normalize_reflectors<T>(reflection_vectors, unit_reflectors_, norms_);
  const auto u = columns_of(unit_reflectors_);
  make_s_factor<T>(u, columns_of(s_));
  // Omega^T = [I, 0] - Z U^T, in the column-major view of Omega's C order.
  times_s_inverse<T>(u.block(0, 0, m_, m_), transposed(columns_of(s_)), columns_of(z_));
  const auto omega_transposed = columns_of(omega_);
  gemm<T>(-1, columns_of(z_), transposed(u), 0, omega_transposed);
  add_to_diagonal(omega_transposed.block(0, 0, m_, m_), T{1});
}

template <class T>
void TruncatedCwy<T>::apply(ConstTensorView<T> x, TensorView<T> y) const {
  check_pair(x.shape(), y.shape(), n_, m_);
  gemm<T>(1, transposed(columns_of(omega_)), columns_of(x), 0, columns_of(y), execution_.precision);
}

template <class T>
void TruncatedCwy<T>::apply_transpose(ConstTensorView<T> y, TensorView<T> x) const {
  check_pair(x.shape(), y.shape(), n_, m_);
  gemm<T>(1, columns_of(omega_), columns_of(y), 0, columns_of(x), execution_.precision);
}

template <class T>
void TruncatedCwy<T>::backward(ConstTensorView<T> d_omega, TensorView<T> d_reflection_vectors) {
  check_tensor("d_omega", d_omega, {n_, m_}, execution_.device);
  check_tensor("d_reflection_vectors", d_reflection_vectors, parameter_shape(), execution_.device);
  const auto u = columns_of(unit_reflectors_);
  const auto d_omega_transposed = columns_of(d_omega);
  const auto z = columns_of(z_), d_s = columns_of(d_s_), d_u1 = columns_of(d_units1_),
             du = columns_of(d_units_);
  gemm<T>(-1, d_omega_transposed, u, 0, columns_of(d_omega_u_));
  times_s_inverse<T>(columns_of(d_omega_u_), columns_of(s_), d_u1);
  // Of dS only the strict upper part is variable.
  gemm<T>(-1, transposed(d_u1), z, 0, d_s);
  symmetrize_strict_upper(d_s);
  gemm<T>(-1, transposed(d_omega_transposed), z, 0, du);
  gemm<T>(1, u, d_s, 1, du);
  add<T>(d_u1, du.block(0, 0, m_, m_));
  backward_of_normalize<T>(unit_reflectors_, norms_, d_units_, d_reflection_vectors);
}

template class TruncatedCwy<float>;
template class TruncatedCwy<double>;

}  // namespace orthornn
