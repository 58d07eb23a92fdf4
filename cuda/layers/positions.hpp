#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// y <- x + the vectors [steps, N] of the live steps, NaN where there is no vector; `before` [B, 1] steps
/// have been. Reports a fault for a sequence whose steps have no vectors.
template <class T>
void add_positions(TensorView<const T> x, TensorView<const T> vectors, TensorView<const std::int32_t> lengths,
                   TensorView<const T> before, TensorView<T> y);

/// gradient [some steps, N] <- (or +=) the sums over sequences of d_y [T, B, N] at the live steps, in double.
template <class T>
void sum_positions(TensorView<const T> d_y, TensorView<const std::int32_t> lengths,
                   TensorView<const T> before, TensorView<T> gradient, bool adds);

}  // namespace orthornn::cuda
