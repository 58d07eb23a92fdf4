#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As that of orthornn, in device memory.
template <class U>
void gather_sequences(TensorView<const U> from, TensorView<const std::int32_t> rows, TensorView<U> to);

}  // namespace orthornn::cuda
