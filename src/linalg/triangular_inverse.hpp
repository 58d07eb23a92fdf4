#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// Replaces an upper triangular matrix by its inverse; entries below the diagonal are neither read nor
/// written. Recursion on halves, so that nearly all of the work is products. The diagonal must have no zero.
template <class T>
void invert_upper_triangular(MatrixView<T> a);

}  // namespace orthornn
