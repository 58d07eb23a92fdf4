#include "linalg/s_factor.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

/// Columns that Eigen solves. For more it would take memory from the heap.
constexpr Index columns_of_eigen = 128;
/// Rows that are solved at once. They have nothing to do with each other, and the groups are the same for
/// every number of threads, and so are the bits.
constexpr Index group_rows = 64;
/// Below this number of operations, waking the other threads costs more time than they save.
constexpr double serial_flops = 2e5;

template <class T>
void solve_with_eigen(const Operand<T>& s, MatrixView<T> x) {
  const auto upper = eigen(s.matrix).template triangularView<Eigen::Upper>();
  const auto solve_groups = [&](Index first, Index last) {
    for (Index row = first; row < last; row += group_rows) {
      auto group = eigen(x.block(row, 0, std::min(group_rows, last - row), x.cols));
      if (s.is_transposed) {
        upper.transpose().template solveInPlace<Eigen::OnTheRight>(group);
      } else {
        upper.template solveInPlace<Eigen::OnTheRight>(group);
      }
    }
  };
  const double flops =
      static_cast<double>(x.rows) * static_cast<double>(x.cols) * static_cast<double>(x.cols);
  if (flops < serial_flops) return solve_groups(0, x.rows);
  parallel_for(x.rows, group_rows, solve_groups);
}

/// x <- x S^-1, or x S^-T. [x1 x2] [A B; 0 D]^-1 = [y1, (x2 - y1 B) D^-1] with y1 = x1 A^-1, and from the
/// other side for a transpose.
template <class T>
void solve(const Operand<T>& s, MatrixView<T> x) {
  if (x.cols <= columns_of_eigen) return solve_with_eigen(s, x);
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
