#pragma once
// What the operations of this stage ask of their arguments.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn {

inline void check_chunk(Index chunk, const char* what) {
  if (chunk < 1) throw ValueError(fmt::format("a chunk has {} {}, expected 1 or more", chunk, what));
}

/// Throws ValueError unless the number is finite as a T.
template <class T>
void check_scale(double scale) {
  if (!std::isfinite(static_cast<T>(scale)))
    throw ValueError(fmt::format("the scale is {}, expected a finite number", scale));
}

inline void check_on_cpu(const char* operation, std::initializer_list<Device> devices) {
  for (const Device device : devices) {
    if (device.is_cuda())
      throw DeviceError(fmt::format("{} runs on the CPU alone, and one of its tensors is on {}; copy it",
                                    operation, to_string(device)));
  }
}

/// Padding is set to zero: a number there would reach sums over all rows.
template <class T>
void clear_padding(const TokenLayout& layout, std::initializer_list<TensorView<T>> tensors) {
  if (!layout.has_padding()) return;
  for (const TensorView<T>& x : tensors) std::fill(x.begin(), x.end(), T{0});
}

}  // namespace orthornn
