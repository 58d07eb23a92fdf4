#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// to [L, R, N] <- from [L, B, N]: sequence r of `to` is sequence rows[r] of `from`, 0 .. B - 1.
template <class U>
void gather_sequences(TensorView<const U> from, TensorView<const std::int32_t> rows, TensorView<U> to);

}  // namespace orthornn
