#include "orthogonal/reflection_vectors.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthogonal/reflectors.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {

Parameter reflection_vectors_parameter(Index reflections, Index hidden_size) {
  if (reflections < 0 || reflections > hidden_size) {
    throw ValueError(fmt::format("{} reflections with hidden size {}; expected 1 to {}", reflections,
                                 hidden_size, hidden_size));
  }
  return {"reflection_vectors",
          {reflections == 0 ? hidden_size : reflections, hidden_size},
          ParameterKind::orthogonal,
          0};
}

template <class T>
ReflectionVectors<T>::ReflectionVectors(const Shape& shape, Init init, ReflectionFactors made, Device device)
    : reflections_(shape[0]), hidden_size_(shape[1]), init_(init), made_(made) {
  const auto zeros = [&](const Shape& sizes) { return Tensor<T>(sizes, device); };
  units_ = zeros(shape);
  norms_ = zeros({reflections_});
  if (made == ReflectionFactors::units) return;
  const Shape small{reflections_, reflections_};
  s_inverse_ = zeros(small);
  left_ = zeros(shape);
  right_ = zeros(shape);
  small_ = zeros(small);
  small_product_ = zeros(small);
  d_units_ = zeros(shape);
  if (made == ReflectionFactors::matrix) q_ = zeros({hidden_size_, hidden_size_});
}

template <class T>
void ReflectionVectors<T>::draw(std::uint64_t seed, TensorView<T> vectors) const {
  switch (init_) {
    case Init::normal: {
      RandomStream random(seed, RandomPurpose::initialization);
      for (T& x : vectors) x = static_cast<T>(random.normal());
      return;
    }
    case Init::haar:
      return haar_reflection_vectors(seed, vectors);
    case Init::henaff:
    case Init::cayley: {
      Tensor<double> q(Shape{hidden_size_, hidden_size_});
      initial_matrix(init_, seed, reflections_, reflections_ % 2 == 0 ? 1 : -1, q);
      Tensor<double> exact(vectors.shape());
      reflection_vectors_of<double>(q, exact);
      std::transform(exact.begin(), exact.end(), vectors.begin(), [](double x) { return static_cast<T>(x); });
      return;
    }
  }
}

template <class T>
void ReflectionVectors<T>::find_parameters(ConstTensorView<T> q, TensorView<T> vectors) const {
  reflection_vectors_of<T>(q, vectors);
}

template <class T>
void ReflectionVectors<T>::prepare(ConstTensorView<T> vectors) {
  normalize_reflectors<T>(vectors, units_, norms_);
  if (made_ == ReflectionFactors::units) return;
  inverse_s_factor<T>(u(), columns_of(s_inverse_));
  if (made_ != ReflectionFactors::matrix) return;
  // Q^T = I - U (U S^-1)^T, in the column-major view of Q's C order.
  const auto product = columns_of(left_);
  gemm<T>(1, u(), columns_of(s_inverse_), 0, product);
  const auto q_transposed = columns_of(q_);
  gemm<T>(-1, u(), transposed(product), 0, q_transposed);
  add_to_diagonal(q_transposed, T{1});
}

template <class T>
TensorView<const T> ReflectionVectors<T>::backward_of_matrix(TensorView<const T> d_q) {
  const auto d_q_transposed = columns_of(d_q);
  const auto left = columns_of(left_);    // dQ U
  const auto right = columns_of(right_);  // dQ^T U
  const auto m = columns_of(small_);
  const auto s_inverse = columns_of(s_inverse_);
  gemm<T>(1, transposed(d_q_transposed), u(), 0, left);
  gemm<T>(1, d_q_transposed, u(), 0, right);
  // dT = -U^T dQ U, then dS, of which only the strict upper part is variable.
  gemm<T>(-1, transposed(u()), left, 0, m);
  backward_of_inverse<T>(s_inverse, m, columns_of(small_product_), m);
  symmetrize_strict_upper(m);
  // dU = -(dQ U S^-T + dQ^T U S^-1) + U (striu(dS) + striu(dS)^T)
  const auto du = columns_of(d_units_);
  gemm<T>(-1, left, transposed(s_inverse), 0, du);
  gemm<T>(-1, right, s_inverse, 1, du);
  gemm<T>(1, u(), m, 1, du);
  return d_units_;
}

template <class T>
void ReflectionVectors<T>::backward(const Factors<T>& gradient, TensorView<T> d_vectors) {
  const TensorView<const T> d_units =
      gradient.units.empty() ? backward_of_matrix(gradient.q) : gradient.units;
  backward_of_normalize<T>(units_, norms_, d_units, d_vectors);
}

template class ReflectionVectors<float>;
template class ReflectionVectors<double>;

}  // namespace orthornn
