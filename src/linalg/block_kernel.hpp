#pragma once
// Eigen's packing routines and register-blocked kernel behind three calls. Eigen's own product allocates its
// packed blocks on every call and packs a matrix again each time it is used; a recurrence multiplies by the
// same matrix T times and must not allocate, so orthornn owns the blocks and Eigen does the arithmetic.

#include <Eigen/Core>
#include <algorithm>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::block_kernel {

template <class T>
using Traits = Eigen::internal::gebp_traits<T, T>;

/// The kernel works on groups of this many rows and columns; splitting at multiples of them does not change
/// the rounding.
template <class T>
constexpr Index row_group = Traits<T>::mr;
template <class T>
constexpr Index column_group = Traits<T>::nr;

/// Sizes of the blocks that stay in the caches: depth x rows of the left, depth x cols of the right matrix.
struct Blocking {
  Index rows;
  Index cols;
  Index depth;
};

template <class T>
Blocking blocking(Index rows, Index cols, Index depth) {
  // Eigen divides by them.
  Index kc = std::max<Index>(depth, 1), mc = std::max<Index>(rows, 1), nc = std::max<Index>(cols, 1);
  Eigen::internal::computeProductBlockingSizes<T, T>(kc, mc, nc, Index{1});
  const auto round_up = [](Index n, Index group) { return (n + group - 1) / group * group; };
  return {round_up(std::max<Index>(mc, 1), row_group<T>), round_up(std::max<Index>(nc, 1), column_group<T>),
          std::max<Index>(kc, 1)};
}

/// Packs rows [row, row + rows) x depths [k, k + depth) of a, rows * depth scalars, 64-byte aligned.
template <class T>
void pack_left(T* packed, const Operand<T>& a, Index row, Index k, Index rows, Index depth) {
  using namespace Eigen::internal;
  if (a.is_transposed) {
    using Mapper = const_blas_data_mapper<T, Index, Eigen::RowMajor>;
    gemm_pack_lhs<T, Index, Mapper, Traits<T>::mr, Traits<T>::LhsProgress,
                  typename Traits<T>::LhsPacket4Packing, Eigen::RowMajor>()(
        packed, Mapper(a.matrix.data + k + row * a.matrix.stride, a.matrix.stride), depth, rows);
  } else {
    using Mapper = const_blas_data_mapper<T, Index, Eigen::ColMajor>;
    gemm_pack_lhs<T, Index, Mapper, Traits<T>::mr, Traits<T>::LhsProgress,
                  typename Traits<T>::LhsPacket4Packing, Eigen::ColMajor>()(
        packed, Mapper(a.matrix.data + row + k * a.matrix.stride, a.matrix.stride), depth, rows);
  }
}

/// Packs depths [k, k + depth) x columns [col, col + cols) of b, depth * cols scalars, 64-byte aligned.
template <class T>
void pack_right(T* packed, const Operand<T>& b, Index k, Index col, Index depth, Index cols) {
  using namespace Eigen::internal;
  if (b.is_transposed) {
    using Mapper = const_blas_data_mapper<T, Index, Eigen::RowMajor>;
    gemm_pack_rhs<T, Index, Mapper, Traits<T>::nr, Eigen::RowMajor>()(
        packed, Mapper(b.matrix.data + col + k * b.matrix.stride, b.matrix.stride), depth, cols);
  } else {
    using Mapper = const_blas_data_mapper<T, Index, Eigen::ColMajor>;
    gemm_pack_rhs<T, Index, Mapper, Traits<T>::nr, Eigen::ColMajor>()(
        packed, Mapper(b.matrix.data + k + col * b.matrix.stride, b.matrix.stride), depth, cols);
  }
}

/// c += alpha * left * right, the two as packed above.
template <class T>
void multiply_add(MatrixView<T> c, T alpha, const T* left, const T* right, Index depth) {
  using Mapper = Eigen::internal::blas_data_mapper<T, Index, Eigen::ColMajor, Eigen::Unaligned, 1>;
  Eigen::internal::gebp_kernel<T, T, Index, Mapper, Traits<T>::mr, Traits<T>::nr, false, false>()(
      Mapper(c.data, c.stride), left, right, c.rows, depth, c.cols, alpha);
}

}  // namespace orthornn::block_kernel
