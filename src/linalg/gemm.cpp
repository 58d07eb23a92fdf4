#include "linalg/gemm.hpp"

#include <algorithm>
#include <cassert>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/linalg/gemm.hpp"
#include "linalg/block_kernel.hpp"
#include "linalg/thin_product.hpp"

namespace orthornn {
namespace {

struct GemmBlocks;

template <class T>
void scale(MatrixView<T> c, T beta) {
  if (beta == T{1}) return;
  for (Index j = 0; j < c.cols; ++j) {
    T* column = c.column(j);
    if (beta == T{0}) {
      std::fill(column, column + c.rows, T{0});
    } else {
      for (Index i = 0; i < c.rows; ++i) column[i] *= beta;
    }
  }
}

/// The part of c whose upper left corner is (row, col) in the whole product.
template <class T>
void gemm_block(T alpha, const Operand<T>& a, const Operand<T>& b, T beta, MatrixView<T> c, Index row,
                Index col, const block_kernel::Blocking& blocking) {
  scale(c, beta);
  const Index depth = a.cols();
  if (depth == 0) return;
  const Index kc = std::min(blocking.depth, depth);
  const Index mc = std::min(blocking.rows, c.rows);
  const Index nc = std::min(blocking.cols, c.cols);
  const Index left_size = (mc * kc + 15) / 16 * 16;  // keeps the right block aligned
  T* left = thread_scratch<T, GemmBlocks>(left_size + kc * nc);
  T* right = left + left_size;
  for (Index k = 0; k < depth; k += kc) {
    const Index k_count = std::min(kc, depth - k);
    for (Index j = 0; j < c.cols; j += nc) {
      const Index j_count = std::min(nc, c.cols - j);
      block_kernel::pack_right(right, b, k, col + j, k_count, j_count);
      for (Index i = 0; i < c.rows; i += mc) {
        const Index i_count = std::min(mc, c.rows - i);
        block_kernel::pack_left(left, a, row + i, k, i_count, k_count);
        block_kernel::multiply_add(c.block(i, j, i_count, j_count), alpha, left, right, k_count);
      }
    }
  }
}

}  // namespace

template <class T>
void gemm(std::type_identity_t<T> alpha, std::type_identity_t<Operand<T>> a,
          std::type_identity_t<Operand<T>> b, std::type_identity_t<T> beta, MatrixView<T> c,
          Precision precision) {
  if constexpr (has_cuda_bodies) {
    if (c.device.is_cuda()) return cuda::gemm<T>(alpha, a, b, beta, c, precision);
  }
  assert(a.rows() == c.rows && b.cols() == c.cols && a.cols() == b.rows());
  // The blocking is that of the whole product. So the split of c among threads never changes the order of a
  // sum.
  const block_kernel::Blocking blocking = block_kernel::blocking<T>(c.rows, c.cols, a.cols());
  const double flops =
      2.0 * static_cast<double>(c.rows) * static_cast<double>(c.cols) * static_cast<double>(a.cols());
  if (flops < serial_flops) {
    gemm_block<T>(alpha, a, b, beta, c, 0, 0, blocking);
  } else if (is_thin_product(c.rows, c.cols, a.cols())) {
    parallel_for(c.cols, thin_column_group, [&](Index first, Index last) {
      const MatrixView<T> part = c.columns(first, last - first);
      scale(part, beta);
      thin_multiply_add<T>(alpha, a, b, part, first);
    });
  } else if (c.cols >= c.rows) {
    parallel_for(c.cols, block_kernel::column_group<T>, [&](Index first, Index last) {
      gemm_block<T>(alpha, a, b, beta, c.columns(first, last - first), 0, first, blocking);
    });
  } else {
    parallel_for(c.rows, block_kernel::row_group<T>, [&](Index first, Index last) {
      gemm_block<T>(alpha, a, b, beta, c.block(first, 0, last - first, c.cols), first, 0, blocking);
    });
  }
}

void gemm(const Operand<bfloat16>& a, const Operand<bfloat16>& b, float beta, MatrixView<float> c) {
  assert(c.device.is_cuda());
  if constexpr (has_cuda_bodies) cuda::gemm(a, b, beta, c);
}

template void gemm<float>(float, Operand<float>, Operand<float>, float, MatrixView<float>, Precision);
template void gemm<double>(double, Operand<double>, Operand<double>, double, MatrixView<double>, Precision);

}  // namespace orthornn
