#pragma once

#include "cuda/layers/delta_projections.hpp"

namespace orthornn {

/// Convolution, SiLU, unit norms, step sizes and decays: the projections of T B rows become the input of a
/// delta product. Beyond a sequence's length, step sizes, log decays and removals are 0, so that the state
/// stays.
template <class T, class X>
void read_projections(const DeltaProjections<T>& p, const DeltaVectors<T, X>& to);

/// Its backward, for what it had `read` and the gradients `d` of that. d_channels [T, B, C or more] <- the
/// gradient of the convolved channels, d_rows [T, B, M] <- those of the step sizes, decays and removals
/// alone. Without a convolution both may be one tensor. d_decay_rates [T, B, H] <- the terms of the gradient
/// of the rates; empty where there are none.
template <class T, class X>
void read_projections_backward(const DeltaProjections<T>& p, const DeltaVectors<const T, const X>& read,
                               const DeltaVectors<const T, const X>& d, TensorView<T> d_channels,
                               TensorView<T> d_rows, TensorView<T> d_decay_rates);

}  // namespace orthornn
