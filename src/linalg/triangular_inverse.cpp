#include "linalg/triangular_inverse.hpp"

#include "core/thread_scratch.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

struct OffDiagonalBlock;

constexpr Index unblocked_order = 32;

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

/// The strict lower parts of the diagonal blocks hold the caller's numbers, so products read copies.
template <class T>
void copy_upper(MatrixView<const T> from, MatrixView<T> to) {
  for (Index j = 0; j < from.cols; ++j) {
    for (Index i = 0; i < from.rows; ++i) to(i, j) = i <= j ? from(i, j) : T{0};
  }
}

template <class T>
void invert(MatrixView<T> a, T* workspace) {
  if (a.cols <= unblocked_order) return invert_unblocked(a);
  const Index n1 = a.cols / 2;
  const Index n2 = a.cols - n1;
  const MatrixView<T> first = a.block(0, 0, n1, n1);
  const MatrixView<T> second = a.block(n1, n1, n2, n2);
  invert(first, workspace);
  invert(second, workspace);

  // [A B; 0 D]^-1 = [A^-1, -A^-1 B D^-1; 0, D^-1]
  const MatrixView<T> off_diagonal = a.block(0, n1, n1, n2);
  const MatrixView<T> product{workspace, n1, n2, n1};
  const MatrixView<T> triangle{workspace + n1 * n2, n2, n2, n2};
  copy_upper<T>(second, triangle);
  gemm<T>(1, off_diagonal, triangle, 0, product);
  const MatrixView<T> upper{triangle.data, n1, n1, n1};
  copy_upper<T>(first, upper);
  gemm<T>(-1, upper, product, 0, off_diagonal);
}

}  // namespace

template <class T>
void invert_upper_triangular(MatrixView<T> a) {
  const Index half = a.cols - a.cols / 2;
  invert(a, thread_scratch<T, OffDiagonalBlock>(2 * half * half));
}

template void invert_upper_triangular<float>(MatrixView<float>);
template void invert_upper_triangular<double>(MatrixView<double>);

}  // namespace orthornn
