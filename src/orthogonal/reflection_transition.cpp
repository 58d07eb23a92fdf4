#include "orthogonal/reflection_transition.hpp"

#include <algorithm>

#include "orthogonal/check_tensor.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {

template <class T>
ReflectionTransition<T>::ReflectionTransition(const Parameter& vectors, Init init, const Execution& execution)
    : Transition<T>(vectors, execution),
      d_units_(vectors.shape, execution.device),
      reflections_(vectors.shape[0]),
      init_(init),
      units_(vectors.shape, execution.device),
      norms_(Shape{reflections_}, execution.device),
      coefficient_product_(Shape{reflections_, reflections_}, execution.device) {}

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
      Tensor<double> exact(this->parameter_shape());
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
  check_tensor("reflection_vectors", vectors, this->parameter_shape(), this->device());
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
