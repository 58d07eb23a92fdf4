#pragma once

#include <cstdint>

#include "core/for_each.hpp"
#include "orthornn/core/tensor.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn {

/// to [1] <- value, on any device, by a kernel on a GPU: a copy from the host would wait for it.
inline void set_value(TensorView<std::uint64_t> to, std::uint64_t value) {
  for_each(to.device(), 1, pointwise::SetValue<std::uint64_t>{to.data(), value});
}

}  // namespace orthornn
