#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// max |I - Q^T Q| over the entries, for q [N, M] with N >= M (else ShapeError), the products summed in
/// double, on q's device. 0 for an exactly orthogonal matrix, about eps for one that rounding alone has
/// touched.
template <class T>
double orthogonality_error(TensorView<const T> q);
template <class T>
double orthogonality_error(const Tensor<T>& q) {
  return orthogonality_error<T>(q.view());
}

}  // namespace orthornn
