#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// A column-major view of a matrix, as the papers, Eigen and BLAS see a tensor. It does not own its memory,
/// and checks no index.
template <class T>
struct MatrixView {
  /// Address of the first element.
  T* data = nullptr;
  /// Number of rows.
  Index rows = 0;
  /// Number of columns.
  Index cols = 0;
  /// Distance from a column to the next one, in elements.
  Index stride = 0;
  /// Device whose memory it is.
  Device device = Device::cpu();

  /// A matrix without elements.
  MatrixView() = default;
  /// A view of memory on device `where`.
  MatrixView(T* memory, Index row_count, Index col_count, Index column_stride, Device where = Device::cpu())
      : data(memory), rows(row_count), cols(col_count), stride(column_stride), device(where) {}
  /// A read-only view from a writable one.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) MatrixView(const MatrixView<U>& other)
      : MatrixView(other.data, other.rows, other.cols, other.stride, other.device) {}

  /// Element of a matrix in host memory.
  T& operator()(Index row, Index col) const { return data[row + col * stride]; }
  /// Address of a column.
  T* column(Index col) const { return data + col * stride; }
  /// View of a block of `row_count` rows and `col_count` columns, whose first element is (row, col).
  MatrixView block(Index row, Index col, Index row_count, Index col_count) const {
    return {data + row + col * stride, row_count, col_count, stride, device};
  }
  /// View of `count` columns from column `first` on.
  MatrixView columns(Index first, Index count) const { return block(0, first, rows, count); }
};

/// View of a tensor [.., N] as the N x (..) matrix that it is in memory.
template <class T>
MatrixView<T> columns_of(TensorView<T> x) {
  const Index rows = x.shape()[-1];
  return {x.data(), rows, rows == 0 ? 0 : x.shape().count() / rows, rows, x.device()};
}
/// View of a tensor [.., N] as the N x (..) matrix that it is in memory.
template <class T>
MatrixView<T> columns_of(Tensor<T>& x) {
  return columns_of(x.view());
}
/// Read-only view of a tensor [.., N] as the N x (..) matrix that it is in memory.
template <class T>
MatrixView<const T> columns_of(const Tensor<T>& x) {
  return columns_of(x.view());
}

/// A matrix, or its transpose, as an operand of a product.
template <class T>
struct Operand {
  /// The matrix as it lies in memory.
  MatrixView<const T> matrix;
  /// Whether the operand is the transpose of `matrix`.
  bool is_transposed = false;

  /// A matrix, or with `t` its transpose.
  Operand(MatrixView<const T> m, bool t = false) : matrix(m), is_transposed(t) {}
  /// A matrix.
  Operand(MatrixView<T> m) : matrix(m) {}

  /// Number of rows of the operand.
  Index rows() const { return is_transposed ? matrix.cols : matrix.rows; }
  /// Number of columns of the operand.
  Index cols() const { return is_transposed ? matrix.rows : matrix.cols; }
};

/// The transpose of a matrix as an operand; nothing is copied.
template <class T>
Operand<std::remove_const_t<T>> transposed(MatrixView<T> matrix) {
  return {matrix, true};
}

}  // namespace orthornn
