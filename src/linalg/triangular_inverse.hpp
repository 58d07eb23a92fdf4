#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// Replaces an upper triangular matrix by its inverse; what lies below the diagonal is neither read nor
/// written. Recursion on halves, so that nearly all of the work is products. No zero may stand on the
/// diagonal.
template <class T>
void invert_upper_triangular(MatrixView<T> a);

}  // namespace orthornn
