#include "linalg/s_factor.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

/// Columns that are solved without products.
constexpr Index strip_columns = 32;
/// Rows that are solved together: their sums stay in registers.
template <class T>
constexpr Index strip_rows = 128 / static_cast<Index>(sizeof(T));

/// A strip of x, whose columns lie one after another.
template <class T>
using Strip = T[strip_columns][strip_rows<T>];

/// strip column j <- (column j - those columns that are known, times their entries of S) / its diagonal.
template <class T, class Entry>
void solve_column(Strip<T>& strip, Index j, Index first_known, Index end_of_known, const Entry& entry) {
  constexpr Index rows = strip_rows<T>;
  T sums[rows];
  std::copy_n(strip[j], rows, sums);
  for (Index k = first_known; k < end_of_known; ++k) {
    const T factor = entry(k, j);
    for (Index i = 0; i < rows; ++i) sums[i] -= strip[k][i] * factor;
  }
  const T diagonal = entry(j, j);
  for (Index i = 0; i < rows; ++i) strip[j][i] = sums[i] / diagonal;
}

/// Rows of x have nothing to do with each other. A strip that is not full is computed like a full one, so a
/// row has the same bits wherever the strips begin.
template <class T>
void solve_unblocked(const Operand<T>& s, MatrixView<T> x) {
  const MatrixView<const T> upper = s.matrix;
  constexpr Index rows = strip_rows<T>;
  const auto solve_rows = [&](Index first, Index last) {
    Strip<T> strip = {};
    for (Index row = first; row < last; row += rows) {
      const Index count = std::min(rows, last - row);
      for (Index j = 0; j < x.cols; ++j) std::copy_n(x.column(j) + row, count, strip[j]);
      if (s.is_transposed) {
        for (Index j = x.cols - 1; j >= 0; --j)
          solve_column<T>(strip, j, j + 1, x.cols, [&](Index k, Index col) { return upper(col, k); });
      } else {
        for (Index j = 0; j < x.cols; ++j)
          solve_column<T>(strip, j, 0, j, [&](Index k, Index col) { return upper(k, col); });
      }
      for (Index j = 0; j < x.cols; ++j) std::copy_n(strip[j], count, x.column(j) + row);
    }
  };
  const double flops =
      static_cast<double>(x.rows) * static_cast<double>(x.cols) * static_cast<double>(x.cols);
  if (flops < serial_flops) return solve_rows(0, x.rows);
  parallel_for(x.rows, rows, solve_rows);
}

/// x <- x S^-1, or x S^-T. [x1 x2] [A B; 0 D]^-1 = [y1, (x2 - y1 B) D^-1] with y1 = x1 A^-1, and from the
/// other side for a transpose.
template <class T>
void solve(const Operand<T>& s, MatrixView<T> x) {
  if (x.cols <= strip_columns) return solve_unblocked(s, x);
  const Index n1 = x.cols / 2, n2 = x.cols - n1;
  const auto block = [&](Index row, Index col, Index rows, Index cols) {
    return Operand<T>(s.matrix.block(row, col, rows, cols), s.is_transposed);
  };
  const MatrixView<T> x1 = x.columns(0, n1), x2 = x.columns(n1, n2);
  if (s.is_transposed) {
    solve(block(n1, n1, n2, n2), x2);
    gemm<T>(-1, x2, block(0, n1, n1, n2), 1, x1);
    solve(block(0, 0, n1, n1), x1);
  } else {
    solve(block(0, 0, n1, n1), x1);
    gemm<T>(-1, x1, block(0, n1, n1, n2), 1, x2);
    solve(block(n1, n1, n2, n2), x2);
  }
}

}  // namespace

template <class T>
void times_s_inverse(MatrixView<const std::type_identity_t<T>> x, std::type_identity_t<Operand<T>> s,
                     MatrixView<T> y) {
  if (y.device.is_cuda()) return gemm<T>(1, x, s, 0, y);
  eigen(y) = eigen(x);
  solve<T>(s, y);
}

#define ORTHORNN_INSTANTIATE(T) \
  template void times_s_inverse<T>(MatrixView<const T>, Operand<T>, MatrixView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
