#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "orthogonal/dense_matrix.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/orthogonal/transition.hpp"

namespace orthornn {

/// What a transition that is applied as one N x N matrix adds to what it is otherwise, `Base`.
template <class T, class Base>
class DenseForm : public Base {
 public:
  std::string form() const override { return "dense"; }

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
  template <class... Arguments>
  explicit DenseForm(Index n, const Arguments&... arguments) : Base(arguments...), matrix_(n) {}

  DenseMatrix<T> matrix_;
};

/// A transition whose parameters are an N x N matrix as well: Cayley, exponential, free.
template <class T>
class DenseTransition : public DenseForm<T, Transition<T>> {
 public:
  Shape parameter_shape() const override { return {this->hidden_size(), this->hidden_size()}; }

 protected:
  explicit DenseTransition(Index n) : DenseForm<T, Transition<T>>(n, n) {}
};

/// A = X - X^T in C order. Throws ValueError where it is not finite, or so large (|A|_1 eps >= 0.01) that
/// rounding would leave nothing of a transform of it.
template <class T>
void skew_generator(ConstTensorView<T> x, TensorView<T> a) {
  double largest = 0;
  for (Index i = 0; i < x.shape()[0]; ++i) {
    double sum = 0;
    for (Index j = 0; j < x.shape()[0]; ++j) {
      a(i, j) = x(i, j) - x(j, i);
      sum += std::abs(static_cast<double>(a(i, j)));
    }
    if (!std::isfinite(sum)) throw ValueError("skew_parameters hold a value that is not finite");
    largest = std::max(largest, sum);
  }
  if (largest * static_cast<double>(std::numeric_limits<T>::epsilon()) >= 0.01) {
    throw ValueError(
        fmt::format("skew_parameters are too large: X - X^T has the 1-norm {:.3g}, of whose transform "
                    "rounding leaves no correct digit",
                    largest));
  }
}

/// The gradient of X where A = X - X^T has d_a: d_a - d_a^T.
template <class T>
void backward_of_skew_generator(ConstTensorView<T> d_a, TensorView<T> d_x) {
  for (Index i = 0; i < d_a.shape()[0]; ++i) {
    for (Index j = 0; j < d_a.shape()[0]; ++j) d_x(i, j) = d_a(i, j) - d_a(j, i);
  }
}

/// X = A / 2, from which X - X^T gives the skew-symmetric A again.
template <class T>
void skew_parameters_of(MatrixView<const double> a, TensorView<T> x) {
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) x(i, j) = static_cast<T>((a(i, j) - a(j, i)) / 4);
  }
}

}  // namespace orthornn
