#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// to += from, matrices of one size.
template <class T>
void add(MatrixView<const std::type_identity_t<T>> from, MatrixView<T> to);

/// Adds x to every entry of the diagonal of a matrix with no more columns than rows.
template <class T>
void add_to_diagonal(MatrixView<T> matrix, std::type_identity_t<T> x);

/// to <- from^T, which must not overlap.
template <class T>
void copy_transposed(MatrixView<const std::type_identity_t<T>> from, MatrixView<T> to);

/// M <- striu(M) + striu(M)^T, in place.
template <class T>
void symmetrize_strict_upper(MatrixView<T> m);

}  // namespace orthornn
