#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// to [B, N] += from [B, N] for the sequences of length 0.
template <class T>
void add_where_empty(TensorView<const std::int32_t> lengths, TensorView<const T> from, TensorView<T> to);

}  // namespace orthornn::cuda
