#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// to <- from^T, which must not overlap.
template <class T>
void copy_transposed(MatrixView<const T> from, MatrixView<T> to);
/// matrix <- 0.
template <class T>
void set_zero(MatrixView<T> matrix);
/// matrix <- I.
template <class T>
void set_identity(MatrixView<T> matrix);
/// to <- from, which must not overlap.
template <class T>
void copy_matrix(MatrixView<const T> from, MatrixView<T> to);

}  // namespace orthornn::cuda
