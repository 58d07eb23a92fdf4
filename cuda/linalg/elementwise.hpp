#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

// As the functions of the same names in src/linalg/elementwise.hpp.

template <class T>
void add(MatrixView<const T> from, MatrixView<T> to);
template <class T>
void add_to_diagonal(MatrixView<T> matrix, T x);
template <class T>
void copy_transposed(MatrixView<const T> from, MatrixView<T> to);
template <class T>
void symmetrize_strict_upper(MatrixView<T> m);
/// matrix <- 0.
template <class T>
void set_zero(MatrixView<T> matrix);
/// matrix <- I.
template <class T>
void set_identity(MatrixView<T> matrix);
/// to <- from.
template <class T>
void copy_matrix(MatrixView<const T> from, MatrixView<T> to);

}  // namespace orthornn::cuda
