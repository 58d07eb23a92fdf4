#pragma once

#include <cstdint>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// Replaces the square matrix `a` by its inverse: LU decomposition with partial pivoting, recursive on halves
/// of the columns (Toledo 1997), so that nearly all of the work is products. It allocates nothing: `inverse`
/// and `pivots` [n] are workspace. Eigen's decomposition allocates on each call. On a GPU cuSOLVER does it. A
/// singular matrix gives non-finite numbers.
template <class T>
void invert_general(MatrixView<T> a, MatrixView<T> inverse, std::int64_t* pivots);

/// Replaces an upper triangular matrix by its inverse; entries below the diagonal are neither read nor
/// written. Recursion on halves, so that nearly all of the work is products. The diagonal must have no zero.
template <class T>
void invert_upper_triangular(MatrixView<T> a);

}  // namespace orthornn
