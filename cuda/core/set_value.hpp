#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// to [1] <- value, by a kernel: a copy from the host would wait for it.
void set_value(TensorView<std::uint64_t> to, std::uint64_t value);

}  // namespace orthornn::cuda
