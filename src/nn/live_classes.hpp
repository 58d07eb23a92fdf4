#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// to [T, B] <- the classes [T, B], and -1 from step lengths[b] on. No lengths: all sequences have T steps.
void copy_live_classes(TensorView<const std::int32_t> classes, TensorView<const std::int32_t> lengths,
                       TensorView<std::int32_t> to);

}  // namespace orthornn
