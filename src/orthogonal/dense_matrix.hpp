#pragma once

#include "core/back_end.hpp"
#include "linalg/gemm.hpp"
#include "linalg/packed_matrix.hpp"

namespace orthornn {

/// Q [N, N] in C order, for every transition that is applied as one matrix, with its two packings on the CPU;
/// a GPU multiplies by Q without packing.
template <class T>
class DenseMatrix {
 public:
  DenseMatrix(Index n, Device device) : q_(Shape{n, n}, device) {}

  /// Fill it, then pack it.
  TensorView<T> q() { return q_; }
  TensorView<const T> q() const { return q_; }
  /// Its column-major view is Q^T.
  MatrixView<T> transpose() { return columns_of(q_); }
  MatrixView<const T> transpose() const { return columns_of(q_); }
  void pack() {
    if constexpr (has_cuda_bodies) {
      if (q_.device().is_cuda()) return;
    }
    forward_.pack(transposed(transpose()));
    backward_.pack(transpose());
  }
  void multiply_add(MatrixView<const T> h, MatrixView<T> a, Precision precision) const {
    if constexpr (has_cuda_bodies) {
      if (a.device.is_cuda()) return gemm<T>(1, transposed(transpose()), h, 1, a, precision);
    }
    forward_.multiply_add(1, h, a);
  }
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d, Precision precision) const {
    if constexpr (has_cuda_bodies) {
      if (d.device.is_cuda()) return gemm<T>(1, transpose(), g, 1, d, precision);
    }
    backward_.multiply_add(1, g, d);
  }

 private:
  Tensor<T> q_;
  PackedMatrix<T> forward_;
  PackedMatrix<T> backward_;
};

}  // namespace orthornn
