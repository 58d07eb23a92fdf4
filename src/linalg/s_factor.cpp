#include "linalg/s_factor.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {

template <class T>
void times_s_inverse(MatrixView<const std::type_identity_t<T>> x, std::type_identity_t<Operand<T>> s,
                     MatrixView<T> y) {
  if (y.device.is_cuda()) return gemm<T>(1, x, s, 0, y);
  const auto upper = eigen(s.matrix).template triangularView<Eigen::Upper>();
  // Rows have nothing to do with each other. The groups are the same for every number of threads, and so are
  // the bits.
  constexpr Index group_rows = 64;
  parallel_for(y.rows, group_rows, [&](Index first, Index last) {
    for (Index row = first; row < last; row += group_rows) {
      const Index count = std::min(group_rows, last - row);
      auto group = eigen(y.block(row, 0, count, y.cols));
      group = eigen(x.block(row, 0, count, x.cols));
      if (s.is_transposed) {
        upper.transpose().template solveInPlace<Eigen::OnTheRight>(group);
      } else {
        upper.template solveInPlace<Eigen::OnTheRight>(group);
      }
    }
  });
}

#define ORTHORNN_INSTANTIATE(T) \
  template void times_s_inverse<T>(MatrixView<const T>, Operand<T>, MatrixView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
