#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Orthogonality error of a matrix q [N, M], N >= M: the largest entry of |I - Q^T Q| (docs/math.md,
/// section 1.12). Products are summed in double, on the device of q. It is 0 for an exactly orthogonal
/// matrix, and about the rounding error of T for a matrix that is orthogonal up to rounding; NaN where q has
/// a NaN. Throws ShapeError for another shape.
template <class T>
double orthogonality_error(TensorView<const T> q);
/// Orthogonality error of a tensor q [N, M], N >= M: the largest entry of |I - Q^T Q|. Throws ShapeError for
/// another shape.
template <class T>
double orthogonality_error(const Tensor<T>& q) {
  return orthogonality_error<T>(q.view());
}

}  // namespace orthornn
