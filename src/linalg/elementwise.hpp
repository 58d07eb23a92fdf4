#pragma once

#include "core/for_each.hpp"
#include "cuda/linalg/elementwise.hpp"
#include "orthornn/linalg/matrix_view.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn {

/// to += from, matrices of one size.
template <class T>
void add(MatrixView<const std::type_identity_t<T>> from, MatrixView<T> to) {
  for_each_entry(to.device, to.rows, to.cols,
                 pointwise::AddMatrix<T>{from.data, from.stride, to.data, to.stride});
}

/// to <- from, or to += from if it `adds`; tensors of one shape.
template <class T>
void copy_or_add(TensorView<const std::type_identity_t<T>> from, TensorView<T> to, bool adds) {
  adds ? add<T>(columns_of(from), columns_of(to)) : copy<T>(from, to);
}

/// Adds x to every entry of the diagonal of a matrix with no more columns than rows.
template <class T>
void add_to_diagonal(MatrixView<T> matrix, std::type_identity_t<T> x) {
  for_each(matrix.device, matrix.cols, pointwise::AddToDiagonal<T>{matrix.data, matrix.stride, x});
}

/// to <- from^T, which must not overlap.
template <class T>
void copy_transposed(MatrixView<const std::type_identity_t<T>> from, MatrixView<T> to) {
  if constexpr (has_cuda_bodies) {
    if (to.device.is_cuda()) return cuda::copy_transposed<T>(from, to);
  }
  for (Index j = 0; j < to.cols; ++j) {
    for (Index i = 0; i < to.rows; ++i) to(i, j) = from(j, i);
  }
}

/// M <- striu(M) + striu(M)^T, in place.
template <class T>
void symmetrize_strict_upper(MatrixView<T> m) {
  for_each_entry(m.device, m.rows, m.cols, pointwise::SymmetrizeStrictUpper<T>{m.data, m.stride});
}

}  // namespace orthornn
