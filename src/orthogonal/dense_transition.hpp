#pragma once

#include <memory>

#include "orthogonal/dense_matrix.hpp"
#include "orthornn/orthogonal/transition.hpp"

namespace orthornn {

/// A transition whose parameters are an N x N matrix and that is applied as one: Cayley, exponential, free.
template <class T>
class DenseTransition : public Transition<T> {
 public:
  std::string form() const override { return "dense"; }
  Shape parameter_shape() const override { return {this->hidden_size(), this->hidden_size()}; }

  void multiply_add(MatrixView<const T> h, MatrixView<T> a, MatrixView<T>) const override {
    matrix_.multiply_add(h, a);
  }
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d, MatrixView<T>) const override {
    matrix_.multiply_add_transposed(g, d);
  }
  double flops_per_column() const override {
    return 6 * static_cast<double>(this->hidden_size() * this->hidden_size());
  }

 protected:
  explicit DenseTransition(Index n) : Transition<T>(n), matrix_(n) {}

  DenseMatrix<T> matrix_;
};

/// X = A / 2, from which X - X^T gives the skew-symmetric A again.
template <class T>
void skew_parameters_of(MatrixView<const double> a, TensorView<T> x) {
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) x(i, j) = static_cast<T>((a(i, j) - a(j, i)) / 4);
  }
}

}  // namespace orthornn
