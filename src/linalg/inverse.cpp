#include "linalg/inverse.hpp"

#include <cmath>
#include <utility>

#include "core/back_end.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/linalg/inverse.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

struct OffDiagonalBlock;

constexpr Index unblocked_columns = 16;
constexpr Index unblocked_order = 32;

enum class Triangle { unit_lower, upper };

template <class T>
void swap_rows(MatrixView<T> a, Index first, Index last, const std::int64_t* pivots) {
  for (Index j = 0; j < a.cols; ++j) {
    for (Index i = first; i < last; ++i) std::swap(a(i, j), a(pivots[i], j));
  }
}

/// x <- triangle^-1 x, where only the named triangle of `a` is read.
template <class T>
void solve(Triangle triangle, MatrixView<const T> a, MatrixView<T> x) {
  const Index n = a.rows;
  if (n <= unblocked_columns) {
    for (Index j = 0; j < x.cols; ++j) {
      T* column = x.column(j);
      if (triangle == Triangle::unit_lower) {
        for (Index k = 0; k < n; ++k) {
          for (Index i = k + 1; i < n; ++i) column[i] -= a(i, k) * column[k];
        }
      } else {
        for (Index k = n - 1; k >= 0; --k) {
          column[k] /= a(k, k);
          for (Index i = 0; i < k; ++i) column[i] -= a(i, k) * column[k];
        }
      }
    }
    return;
  }
  const Index n1 = n / 2;
  const Index n2 = n - n1;
  const MatrixView<T> top = x.block(0, 0, n1, x.cols);
  const MatrixView<T> bottom = x.block(n1, 0, n2, x.cols);
  if (triangle == Triangle::unit_lower) {
    solve(triangle, a.block(0, 0, n1, n1), top);
    gemm<T>(-1, a.block(n1, 0, n2, n1), top, 1, bottom);
    solve(triangle, a.block(n1, n1, n2, n2), bottom);
  } else {
    solve(triangle, a.block(n1, n1, n2, n2), bottom);
    gemm<T>(-1, a.block(0, n1, n1, n2), bottom, 1, top);
    solve(triangle, a.block(0, 0, n1, n1), top);
  }
}

/// Decomposes the panel a (rows >= cols); pivots count from the panel's first row.
template <class T>
void decompose(MatrixView<T> a, std::int64_t* pivots) {
  if (a.cols <= unblocked_columns) {
    for (Index k = 0; k < a.cols; ++k) {
      Index pivot = k;
      for (Index i = k + 1; i < a.rows; ++i) {
        if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
      }
      pivots[k] = pivot;
      for (Index j = 0; j < a.cols; ++j) std::swap(a(k, j), a(pivot, j));
      const T scale = T{1} / a(k, k);
      for (Index i = k + 1; i < a.rows; ++i) a(i, k) *= scale;
      for (Index j = k + 1; j < a.cols; ++j) {
        const T factor = a(k, j);
        for (Index i = k + 1; i < a.rows; ++i) a(i, j) -= a(i, k) * factor;
      }
    }
    return;
  }
  const Index n1 = a.cols / 2;
  const Index n2 = a.cols - n1;
  const MatrixView<T> left = a.columns(0, n1);
  const MatrixView<T> right = a.columns(n1, n2);
  decompose(left, pivots);
  swap_rows(right, 0, n1, pivots);
  solve<T>(Triangle::unit_lower, left.block(0, 0, n1, n1), right.block(0, 0, n1, n2));
  const MatrixView<T> rest = right.block(n1, 0, a.rows - n1, n2);
  gemm<T>(-1, left.block(n1, 0, a.rows - n1, n1), right.block(0, 0, n1, n2), 1, rest);
  decompose(rest, pivots + n1);
  for (Index i = n1; i < a.cols; ++i) pivots[i] += n1;
  swap_rows(left, n1, a.cols, pivots);
}

template <class T>
void invert_unblocked(MatrixView<T> a) {
  for (Index j = 0; j < a.cols; ++j) {
    const T diagonal = T{1} / a(j, j);
    a(j, j) = diagonal;
    // Column j above the diagonal: -(inverse so far) * column * diagonal, a column of the inverse at a time.
    T* const column = a.column(j);
    for (Index k = 0; k < j; ++k) {
      const T factor = -column[k] * diagonal;
      const T* const inverse = a.column(k);
      for (Index i = 0; i < k; ++i) column[i] += factor * inverse[i];
      column[k] = factor * inverse[k];
    }
  }
}

/// Replaces an upper triangular matrix by its inverse.
template <class T>
void invert(MatrixView<T> a, T* workspace) {
  if (a.cols <= unblocked_order) return invert_unblocked(a);
  const Index n1 = a.cols / 2;
  const Index n2 = a.cols - n1;
  const MatrixView<T> first = a.block(0, 0, n1, n1);
  const MatrixView<T> second = a.block(n1, n1, n2, n2);
  invert(first, workspace);
  invert(second, workspace);

  // [A B; 0 D]^-1 = [A^-1, -A^-1 B D^-1; 0, D^-1]. The strict lower parts of the diagonal blocks hold the
  // caller's numbers, so products read copies.
  const MatrixView<T> off_diagonal = a.block(0, n1, n1, n2);
  const MatrixView<T> product{workspace, n1, n2, n1};
  const MatrixView<T> triangle{workspace + n1 * n2, n2, n2, n2};
  eigen(triangle) = eigen(second).template triangularView<Eigen::Upper>();
  gemm<T>(1, off_diagonal, triangle, 0, product);
  const MatrixView<T> upper{triangle.data, n1, n1, n1};
  eigen(upper) = eigen(first).template triangularView<Eigen::Upper>();
  gemm<T>(-1, upper, product, 0, off_diagonal);
}

}  // namespace

template <class T>
void invert_general(MatrixView<T> a, MatrixView<T> inverse, std::int64_t* pivots) {
  if constexpr (has_cuda_bodies) {
    if (a.device.is_cuda()) return cuda::invert_general<T>(a, inverse, pivots);
  }
  decompose(a, pivots);
  eigen(inverse).setIdentity();
  swap_rows(inverse, 0, a.cols, pivots);
  solve<T>(Triangle::unit_lower, a, inverse);
  solve<T>(Triangle::upper, a, inverse);
  eigen(a) = eigen(inverse);
}

template <class T>
void invert_upper_triangular(MatrixView<T> a) {
  const Index half = a.cols - a.cols / 2;
  invert(a, thread_scratch<T, OffDiagonalBlock>(2 * half * half));
}

#define ORTHORNN_INSTANTIATE(T)                                                 \
  template void invert_general<T>(MatrixView<T>, MatrixView<T>, std::int64_t*); \
  template void invert_upper_triangular<T>(MatrixView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
