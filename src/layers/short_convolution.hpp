#pragma once
// What a causal convolution, each channel by itself, needs beside its sums: z_t = sum_i f_i x_{t - W + 1 +
// i}. Inputs are rows [W - 1 + T, B, M], whose first C numbers are the channels and whose first W - 1 steps
// are those before the sequence.

#include "orthornn/core/saved.hpp"

namespace orthornn {

/// The channels of the first W - 1 steps of rows <- start [B, W - 1, C], or 0 where that is empty.
template <class T>
void load_history(TensorView<const T> start, TensorView<T> rows, Index window, Index channels);

/// last [B, W - 1, C] <- the last inputs of the live steps of each sequence.
template <class T>
void save_history(TensorView<const T> rows, TensorView<const std::int32_t> lengths, TensorView<T> last);

/// The channels of d_rows [T, B, M] <- gradients of the inputs from those of z, d_z [T, B, C], and those of
/// the last inputs, d_last [B, W - 1, C], which may be empty. d_start [B, W - 1, C], unless it is empty, gets
/// those of the steps before. `filters` [W, C].
template <class T>
void convolution_backward(TensorView<const T> d_z, TensorView<const T> filters,
                          TensorView<const std::int32_t> lengths, TensorView<const T> d_last,
                          TensorView<T> d_rows, TensorView<T> d_start);

/// d_filters [W, C] <- sum over steps and sequences of d_z times the inputs.
template <class T>
void filter_gradient(TensorView<const T> rows, TensorView<const T> d_z, TensorView<T> d_filters,
                     Saved& scratch);

}  // namespace orthornn
