#pragma once

#include "linalg/packed_matrix.hpp"

namespace orthornn {

/// Q [N, N] in C order with its two packings, for every transition that is applied as one matrix.
template <class T>
class DenseMatrix {
 public:
  explicit DenseMatrix(Index n) : q_(Shape{n, n}) {}

  /// To be filled, then packed.
  TensorView<T> q() { return q_; }
  TensorView<const T> q() const { return q_; }
  /// Its column-major view is Q^T.
  MatrixView<T> transpose() { return columns_of(q_); }
  void pack() {
    forward_.pack(transposed(transpose()));
    backward_.pack(transpose());
  }
  void multiply_add(MatrixView<const T> h, MatrixView<T> a) const { forward_.multiply_add(1, h, a); }
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d) const {
    backward_.multiply_add(1, g, d);
  }

 private:
  Tensor<T> q_;
  PackedMatrix<T> forward_;
  PackedMatrix<T> backward_;
};

}  // namespace orthornn
