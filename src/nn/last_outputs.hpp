#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// to [B, N] <- the outputs [T, B, N] at the last live step of each sequence; 0 for one without a step. No
/// lengths: all sequences have T steps.
template <class T>
void gather_last(TensorView<const T> outputs, TensorView<const std::int32_t> lengths, TensorView<T> to);

/// Its backward: to [T, B, N] <- from [B, N] at these steps, 0 elsewhere.
template <class T>
void scatter_last(TensorView<const T> from, TensorView<const std::int32_t> lengths, TensorView<T> to);

}  // namespace orthornn
