#pragma once

#include <cstdint>

#include "core/back_end.hpp"
#include "cuda/core/set_value.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// to [1] <- value, on any device; does not synchronize.
inline void set_value(TensorView<std::uint64_t> to, std::uint64_t value) {
  if constexpr (has_cuda_bodies) {
    if (to.device().is_cuda()) return cuda::set_value(to, value);
  }
  to(0) = value;
}

}  // namespace orthornn
