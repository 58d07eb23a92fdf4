#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"
#include "pointwise/numbers.hpp"

namespace orthornn {

/// Optional numbers, as lengths are, as bodies of src/pointwise take them: null where there are none.
template <class T>
T* or_null(TensorView<T> numbers) {
  return numbers.empty() ? nullptr : numbers.data();
}

/// Live steps of sequence b among `length`: all of them where there are no lengths.
inline Index live_steps(TensorView<const std::int32_t> lengths, Index length, Index b) {
  return pointwise::live_steps(or_null(lengths), length, b);
}

}  // namespace orthornn
