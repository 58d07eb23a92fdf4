#include "linalg/packed_matrix.hpp"

#include <algorithm>
#include <cassert>

#include "core/back_end.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/linalg/elementwise.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

struct RightBlock;

// Columns of b that are packed and multiplied at a time. A thread's part of a batch is rarely larger.
constexpr Index panel_columns = 256;

Index aligned(Index count) { return (count + 15) / 16 * 16; }

}  // namespace

template <class T>
void PackedMatrix<T>::reserve(Index rows, Index cols, Device device) {
  rows_ = rows;
  cols_ = cols;
  if (packed_.device() != device) packed_ = Tensor<T>(Shape{0}, device);
  if (device.is_cuda()) return packed_.reserve(Shape{rows, cols});
  blocking_ = block_kernel::blocking<T>(rows, panel_columns, cols);
  Index size = 0;
  for (Index k = 0; k < cols; k += blocking_.depth) {
    for (Index i = 0; i < rows; i += blocking_.rows) {
      size += aligned(std::min(blocking_.depth, cols - k) * std::min(blocking_.rows, rows - i));
    }
  }
  packed_.reserve(Shape{size});
}

template <class T>
void PackedMatrix<T>::pack(const Operand<T>& matrix) {
  reserve(matrix.rows(), matrix.cols(), matrix.matrix.device);
  if constexpr (has_cuda_bodies) {
    if (packed_.device().is_cuda()) {
      const MatrixView<T> transpose = columns_of(packed_);
      return matrix.is_transposed ? cuda::copy_matrix<T>(matrix.matrix, transpose)
                                  : cuda::copy_transposed<T>(matrix.matrix, transpose);
    }
  }
  T* block = packed_.data();
  for (Index k = 0; k < cols_; k += blocking_.depth) {
    const Index k_count = std::min(blocking_.depth, cols_ - k);
    for (Index i = 0; i < rows_; i += blocking_.rows) {
      const Index i_count = std::min(blocking_.rows, rows_ - i);
      block_kernel::pack_left(block, matrix, i, k, i_count, k_count);
      block += aligned(k_count * i_count);
    }
  }
}

template <class T>
void PackedMatrix<T>::multiply_add(std::type_identity_t<T> alpha, MatrixView<const T> b, MatrixView<T> c,
                                   Precision precision) const {
  assert(b.rows == cols_ && c.rows == rows_ && b.cols == c.cols);
  if constexpr (has_cuda_bodies) {
    if (c.device.is_cuda()) return gemm<T>(alpha, transposed(copied()), b, 1, c, precision);
  }
  T* right =
      thread_scratch<T, RightBlock>(std::min(blocking_.depth, cols_) * std::min(panel_columns, b.cols));
  for (Index j = 0; j < b.cols; j += panel_columns) {
    const Index j_count = std::min(panel_columns, b.cols - j);
    const T* block = packed_.data();
    for (Index k = 0; k < cols_; k += blocking_.depth) {
      const Index k_count = std::min(blocking_.depth, cols_ - k);
      block_kernel::pack_right<T>(right, b, k, j, k_count, j_count);
      for (Index i = 0; i < rows_; i += blocking_.rows) {
        const Index i_count = std::min(blocking_.rows, rows_ - i);
        block_kernel::multiply_add<T>(c.block(i, j, i_count, j_count), alpha, block, right, k_count);
        block += aligned(k_count * i_count);
      }
    }
  }
}

template <class T>
void PackedMatrix<T>::multiply(std::type_identity_t<T> alpha, MatrixView<const T> b, MatrixView<T> c,
                               Precision precision) const {
  if constexpr (has_cuda_bodies) {
    if (c.device.is_cuda()) return gemm<T>(alpha, transposed(copied()), b, 0, c, precision);
  }
  for (Index j = 0; j < c.cols; ++j) std::fill(c.column(j), c.column(j) + c.rows, T{0});
  multiply_add(alpha, b, c);
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;

}  // namespace orthornn
