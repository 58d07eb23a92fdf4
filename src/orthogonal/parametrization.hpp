#pragma once

#include "orthornn/orthogonal/parametrization.hpp"
#include "products/product.hpp"

namespace orthornn {

/// What makes Q, or its factors, from free parameters, and takes their gradient back. Parameters have the
/// right shape and lie on its device; `draw` and `find_parameters` get host memory.
template <class T>
class Parametrization {
 public:
  virtual ~Parametrization() = default;

  /// As `initialize` and `parameters_of` of Transition.
  virtual void draw(std::uint64_t seed, TensorView<T> parameters) const = 0;
  virtual void find_parameters(ConstTensorView<T> q, TensorView<T> parameters) const = 0;
  /// Makes the factors.
  virtual void prepare(ConstTensorView<T> parameters) = 0;
  /// From the gradient of the factors, or of Q, to that of the parameters as they were prepared last.
  virtual void backward(const Factors<T>& gradient, TensorView<T> d_parameters) = 0;
  /// Whether a CUDA graph can hold `prepare` and `backward`.
  virtual bool recordable() const { return true; }
};

/// What a Transition joins.
template <class T>
struct TransitionParts {
  std::unique_ptr<Parametrization<T>> parametrization;
  std::unique_ptr<Product<T>> product;
};

/// A parametrization with a function q() that makes Q itself.
template <class T, class MatrixParametrization>
TransitionParts<T> dense_parts(std::unique_ptr<MatrixParametrization> parametrization) {
  auto product = dense_product<T>(parametrization->q());
  return {std::move(parametrization), std::move(product)};
}

}  // namespace orthornn
