#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/dropout_mask.hpp"

namespace orthornn::cuda {

/// to <- (or +=) from times the mask and its scale; `key` [1].
template <class T>
void drop(const DropoutMask& mask, TensorView<const std::uint64_t> key, TensorView<const T> from,
          TensorView<T> to, bool adds);

}  // namespace orthornn::cuda
