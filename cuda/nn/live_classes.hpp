#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As that of orthornn, in device memory.
void copy_live_classes(TensorView<const std::int32_t> classes, TensorView<const std::int32_t> lengths,
                       TensorView<std::int32_t> to);

}  // namespace orthornn::cuda
