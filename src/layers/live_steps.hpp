#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Live steps of sequence b among `length`: all of them where there are no lengths.
inline Index live_steps(TensorView<const std::int32_t> lengths, Index length, Index b) {
  return lengths.empty() ? length : Index{lengths(b)};
}

/// The lengths as bodies of src/pointwise take them: null where there are none.
inline const std::int32_t* or_null(TensorView<const std::int32_t> lengths) {
  return lengths.empty() ? nullptr : lengths.data();
}

}  // namespace orthornn
