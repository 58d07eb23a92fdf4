#include "linalg/elementwise.hpp"

#include "core/back_end.hpp"
#include "cuda/linalg/elementwise.hpp"

namespace orthornn {

template <class T>
void add(MatrixView<const std::type_identity_t<T>> from, MatrixView<T> to) {
  if constexpr (has_cuda_bodies) {
    if (to.device.is_cuda()) return cuda::add<T>(from, to);
  }
  for (Index j = 0; j < to.cols; ++j) {
    for (Index i = 0; i < to.rows; ++i) to(i, j) += from(i, j);
  }
}

template <class T>
void add_to_diagonal(MatrixView<T> matrix, std::type_identity_t<T> x) {
  if constexpr (has_cuda_bodies) {
    if (matrix.device.is_cuda()) return cuda::add_to_diagonal<T>(matrix, x);
  }
  for (Index i = 0; i < matrix.cols; ++i) matrix(i, i) += x;
}

template <class T>
void copy_transposed(MatrixView<const std::type_identity_t<T>> from, MatrixView<T> to) {
  if constexpr (has_cuda_bodies) {
    if (to.device.is_cuda()) return cuda::copy_transposed<T>(from, to);
  }
  for (Index j = 0; j < to.cols; ++j) {
    for (Index i = 0; i < to.rows; ++i) to(i, j) = from(j, i);
  }
}

template <class T>
void symmetrize_strict_upper(MatrixView<T> m) {
  if constexpr (has_cuda_bodies) {
    if (m.device.is_cuda()) return cuda::symmetrize_strict_upper<T>(m);
  }
  for (Index j = 0; j < m.cols; ++j) {
    m(j, j) = 0;
    for (Index i = 0; i < j; ++i) m(j, i) = m(i, j);
  }
}

#define ORTHORNN_INSTANTIATE(T)                                         \
  template void add<T>(MatrixView<const T>, MatrixView<T>);             \
  template void add_to_diagonal<T>(MatrixView<T>, T);                   \
  template void copy_transposed<T>(MatrixView<const T>, MatrixView<T>); \
  template void symmetrize_strict_upper<T>(MatrixView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
