#include "orthogonal/polar_factor.hpp"

#include "core/for_each.hpp"
#include "cuda/core/fault.hpp"
#include "cuda/orthogonal/polar_factor.hpp"
#include "linalg/gemm.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/stiefel.hpp"

namespace orthornn {
namespace {

void check_independent(TensorView<const double> eigenvalues) {
  if constexpr (has_cuda_bodies) {
    if (eigenvalues.device().is_cuda()) return cuda::check_independent(eigenvalues);
  }
  const Index count = eigenvalues.size();
  if (!pointwise::are_of_independent_columns(eigenvalues.data(), count))
    throw ValueError(cuda::dependent_columns_message);
}

}  // namespace

template <class T>
PolarFactor<T>::PolarFactor(Index n, Index m, Device device)
    : omega_(Shape{n, m}, device),
      v_(Shape{n, m}, device),
      exact_(Shape{n, m}, device),
      gradient_(Shape{n, m}, device),
      vectors_(Shape{m, m}, device),
      root_inverse_(Shape{m, m}, device),
      left_(Shape{m, m}, device),
      right_(Shape{m, m}, device),
      eigenvalues_(Shape{m}, device) {}

// The column-major view of a tensor [N, M] is the transpose of its matrix.
template <class T>
void PolarFactor<T>::prepare(ConstTensorView<T> v) {
  const Index m = eigenvalues_.size();
  const auto e = columns_of(vectors_), scaled = columns_of(left_);
  for_each(v.device(), v.size(), pointwise::ToDouble<T>{v.data(), v_.data()});
  gemm<double>(1, columns_of(v_), transposed(columns_of(v_)), 0, e);
  solver_.replace(e, eigenvalues_.data());
  check_independent(eigenvalues_);
  // (V^T V)^-1/2 = E diag(1 / sigma) E^T, and Omega^T = (V^T V)^-1/2 V^T.
  for_each_entry(v.device(), m, m,
                 pointwise::DivideByRoots{vectors_.data(), eigenvalues_.data(), left_.data(), m});
  gemm<double>(1, scaled, transposed(e), 0, columns_of(root_inverse_));
  gemm<double>(1, columns_of(root_inverse_), columns_of(v_), 0, columns_of(exact_));
  for_each(v.device(), v.size(), pointwise::FromDouble<T>{exact_.data(), omega_.data(), nullptr});
}

template <class T>
void PolarFactor<T>::backward(ConstTensorView<T> d_omega, TensorView<T> d_v) {
  const Index m = eigenvalues_.size();
  const auto e = columns_of(vectors_), a = columns_of(left_), y = columns_of(right_),
             omega = columns_of(exact_), g = columns_of(gradient_), result = columns_of(v_);
  for_each(d_v.device(), d_v.size(), pointwise::ToDouble<T>{d_omega.data(), gradient_.data()});
  // 1. dOmega - Omega Omega^T dOmega, with A = Omega^T dOmega.
  gemm<double>(1, omega, transposed(g), 0, a);
  gemm<double>(-1, transposed(a), omega, 1, g);
  // 2. Y, by E^T A E.
  gemm<double>(1, a, e, 0, y);
  gemm<double>(1, transposed(e), y, 0, a);
  for_each_entry(d_v.device(), m, m,
                 pointwise::SkewOverRootSums{left_.data(), eigenvalues_.data(), right_.data(), m});
  gemm<double>(1, e, y, 0, a);
  gemm<double>(1, a, transposed(e), 0, y);
  // 3. dV^T = (V^T V)^-1/2 (..)^T + Y^T Omega^T. V itself is not needed any more.
  gemm<double>(1, columns_of(root_inverse_), g, 0, result);
  gemm<double>(1, transposed(y), omega, 1, result);
  for_each(d_v.device(), d_v.size(), pointwise::FromDouble<T>{v_.data(), d_v.data(), nullptr});
}

template class PolarFactor<float>;
template class PolarFactor<double>;

}  // namespace orthornn
