#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// y [T, B, N] <- the vectors [K, N] of the symbols [T, B]. A symbol outside 0 .. K - 1 is a fault and gives
/// NaN.
template <class T>
void embed(TensorView<const T> vectors, TensorView<const std::int32_t> symbols, TensorView<T> y);

}  // namespace orthornn::cuda
