#pragma once

#include "cuda/layers/delta_outputs.hpp"

namespace orthornn {

/// y [T, B, H V] <- o [T B, H, V], each head normalised and gated where that is asked for; 0 beyond a
/// sequence's length.
template <class T, class X>
void write_outputs(const DeltaReadout<T>& r, TensorView<const X> o, TensorView<T> y);

/// Its backward: d_o <- the gradient of o, the gates' places in d_rows [T, B, M] <- those of the gates, and
/// d_y, where there is a norm, becomes the terms of the gain's gradient.
template <class T, class X>
void write_outputs_backward(const DeltaReadout<T>& r, TensorView<const X> o, TensorView<T> d_y,
                            TensorView<X> d_o, TensorView<T> d_rows);

}  // namespace orthornn
