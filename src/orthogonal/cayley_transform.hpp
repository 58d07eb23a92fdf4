#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// q = (2 k - I) D for k = (I + A)^-1, where the first `negative_signs` entries of D are -1; all [N, N].
/// Throws ValueError if q is not finite; on a GPU, at the next synchronization.
template <class T>
void cayley_transform_of(ConstTensorView<T> k, Index negative_signs, TensorView<T> q);

/// result = x D.
template <class T>
void times_signs(ConstTensorView<T> x, Index negative_signs, TensorView<T> result);

}  // namespace orthornn
