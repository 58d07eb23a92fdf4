#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As those of orthornn, in device memory.
template <class T>
void gather_last(TensorView<const T> outputs, TensorView<const std::int32_t> lengths, TensorView<T> to);
template <class T>
void scatter_last(TensorView<const T> from, TensorView<const std::int32_t> lengths, TensorView<T> to);

}  // namespace orthornn::cuda
