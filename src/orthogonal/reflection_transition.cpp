#include "orthogonal/reflection_transition.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orthogonal/check_tensor.hpp"
#include "orthogonal/factories.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {

Index checked_reflections(Index reflections, Index hidden_size) {
  if (reflections == 0) return hidden_size;
  if (reflections < 0 || reflections > hidden_size) {
    throw ValueError(fmt::format("{} reflections with hidden size {}; expected 1 to {}", reflections,
                                 hidden_size, hidden_size));
  }
  return reflections;
}

template <class T>
ReflectionTransition<T>::ReflectionTransition(Index hidden_size, Index reflections, Init init,
                                              const Execution& execution)
    : Transition<T>(hidden_size, execution),
      d_units_(Shape{reflections, hidden_size}, execution.device),
      reflections_(reflections),
      init_(init),
      units_(Shape{reflections, hidden_size}, execution.device),
      norms_(Shape{reflections}, execution.device),
      coefficient_product_(Shape{reflections, reflections}, execution.device) {}

template <class T>
void ReflectionTransition<T>::draw(std::uint64_t seed, TensorView<T> vectors) const {
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
      const Index n = this->hidden_size();
      Tensor<double> q(Shape{n, n});
      initial_matrix(init_, seed, reflections_, reflections_ % 2 == 0 ? 1 : -1, q);
      Tensor<double> exact(parameter_shape());
      reflection_vectors_of<double>(q, exact);
      std::transform(exact.begin(), exact.end(), vectors.begin(), [](double x) { return static_cast<T>(x); });
      return;
    }
  }
}

template <class T>
void ReflectionTransition<T>::find_parameters(ConstTensorView<T> q, TensorView<T> vectors) const {
  reflection_vectors_of<T>(q, vectors);
}

template <class T>
void ReflectionTransition<T>::normalize(ConstTensorView<T> vectors) {
  check_tensor("reflection_vectors", vectors, parameter_shape(), this->device());
  this->set_prepared(false);
  normalize_reflectors<T>(vectors, units_, norms_);
}

template <class T>
void ReflectionTransition<T>::backward_of_coefficients(MatrixView<const T> g, MatrixView<const T> h,
                                                       MatrixView<const T> z, MatrixView<const T> y,
                                                       TensorView<T> d_vectors) {
  const auto m = columns_of(coefficient_product_);
  const Precision precision = this->execution().precision;
  gemm<T>(1, y, transposed(z), 0, m, precision);
  symmetrize_strict_upper(m);
  const auto du = columns_of(d_units_);
  gemm<T>(-1, g, transposed(z), 0, du, precision);
  gemm<T>(-1, h, transposed(y), 1, du, precision);
  gemm<T>(1, u(), m, 1, du);
  finish_backward(d_vectors);
}

template class ReflectionTransition<float>;
template class ReflectionTransition<double>;

}  // namespace orthornn
