#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// A column-major rows x cols window with `stride` scalars from column to column: the way the papers, Eigen
/// and BLAS see a tensor. columns_of(x) of a tensor [.., N] has N rows.
template <class T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;
  Device device = Device::cpu();

  MatrixView() = default;
  MatrixView(T* memory, Index row_count, Index col_count, Index column_stride, Device where = Device::cpu())
      : data(memory), rows(row_count), cols(col_count), stride(column_stride), device(where) {}
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) MatrixView(const MatrixView<U>& other)
      : MatrixView(other.data, other.rows, other.cols, other.stride, other.device) {}

  /// Element of host memory.
  T& operator()(Index row, Index col) const { return data[row + col * stride]; }
  T* column(Index col) const { return data + col * stride; }
  MatrixView block(Index row, Index col, Index row_count, Index col_count) const {
    return {data + row + col * stride, row_count, col_count, stride, device};
  }
  MatrixView columns(Index first, Index count) const { return block(0, first, rows, count); }
};

/// A tensor [.., N] as the N x (..) matrix that it is in memory.
template <class T>
MatrixView<T> columns_of(TensorView<T> x) {
  const Index rows = x.shape()[-1];
  return {x.data(), rows, rows == 0 ? 0 : x.shape().count() / rows, rows, x.device()};
}
template <class T>
MatrixView<T> columns_of(Tensor<T>& x) {
  return columns_of(x.view());
}
template <class T>
MatrixView<const T> columns_of(const Tensor<T>& x) {
  return columns_of(x.view());
}

/// A matrix, or its transpose, as an operand of a product.
template <class T>
struct Operand {
  MatrixView<const T> matrix;
  bool is_transposed = false;

  Operand(MatrixView<const T> m, bool t = false) : matrix(m), is_transposed(t) {}
  Operand(MatrixView<T> m) : matrix(m) {}

  Index rows() const { return is_transposed ? matrix.cols : matrix.rows; }
  Index cols() const { return is_transposed ? matrix.rows : matrix.cols; }
};

template <class T>
Operand<std::remove_const_t<T>> transposed(MatrixView<T> matrix) {
  return {matrix, true};
}

}  // namespace orthornn
