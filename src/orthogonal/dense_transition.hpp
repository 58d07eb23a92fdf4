#pragma once

#include "orthogonal/dense_matrix.hpp"
#include "orthornn/orthogonal/transition.hpp"

namespace orthornn {

/// A transition `Base` that is applied as one N x N matrix.
template <class T, class Base>
class DenseForm : public Base {
 public:
  std::string form() const override { return "dense"; }
  MatrixView<const T> dense_matrix() const override { return matrix_.transpose(); }
  double flops_per_column() const override {
    return 6 * static_cast<double>(this->hidden_size() * this->hidden_size());
  }

 protected:
  template <class... Arguments>
  explicit DenseForm(Index n, const Arguments&... arguments)
      : Base(arguments...), matrix_(n, this->device()) {}

  void add_product(MatrixView<const T> h, MatrixView<T> a, MatrixView<T>,
                   Precision precision) const override {
    matrix_.multiply_add(h, a, precision);
  }
  void add_transposed_product(MatrixView<const T> g, MatrixView<T> d, MatrixView<T>,
                              Precision precision) const override {
    matrix_.multiply_add_transposed(g, d, precision);
  }

  DenseMatrix<T> matrix_;
};

/// A transition whose parameters are also an N x N matrix: Cayley, exponential, free.
template <class T>
class DenseTransition : public DenseForm<T, Transition<T>> {
 protected:
  DenseTransition(const Parameter& parameter, const Execution& execution)
      : DenseForm<T, Transition<T>>(parameter.shape[-1], parameter, execution) {}
};

}  // namespace orthornn
