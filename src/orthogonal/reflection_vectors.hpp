#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// The parameter of a product of reflections. Throws ValueError unless 0 <= L <= N; L = 0 stands for N.
Parameter reflection_vectors_parameter(Index reflections, Index hidden_size);

/// What a product needs of V: the unit reflectors, S^-1 as well, or Q = I - U S^-1 U^T.
enum class ReflectionFactors { units, units_and_s, matrix };

/// Reflection vectors V [L, N]: CWY in both forms and the sequential product.
template <class T>
class ReflectionVectors final : public Parametrization<T> {
 public:
  ReflectionVectors(const Shape& shape, Init init, ReflectionFactors made, Device device);

  TensorView<const T> units() const { return units_; }
  /// Column-major.
  TensorView<const T> s_inverse() const { return s_inverse_; }
  TensorView<const T> q() const { return q_; }

  void draw(std::uint64_t seed, TensorView<T> vectors) const override;
  void find_parameters(ConstTensorView<T> q, TensorView<T> vectors) const override;
  void prepare(ConstTensorView<T> vectors) override;
  /// From the gradient of the unit reflectors, or, where S^-1 is made, of Q.
  void backward(const Factors<T>& gradient, TensorView<T> d_vectors) override;

 private:
  /// The gradient of the unit reflectors from that of Q (docs/math.md, section 1.8).
  TensorView<const T> backward_of_matrix(TensorView<const T> d_q);
  MatrixView<const T> u() const { return columns_of(units_); }

  Index reflections_, hidden_size_;
  Init init_;
  ReflectionFactors made_;
  Tensor<T> units_, norms_, s_inverse_, q_;
  Tensor<T> left_, right_, small_, small_product_, d_units_;  // workspace of Q and its backward
};

}  // namespace orthornn
