#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// |a|_1, the largest column sum. Synchronizes.
template <class T>
double one_norm(MatrixView<const T> a);

}  // namespace orthornn::cuda
