#pragma once
// What the operations of this stage ask of their arguments.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "core/set_zero.hpp"
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

/// An argument of an operation, as messages name it.
struct NamedPlace {
  const char* name;
  Device device;
  bool empty;

  template <class T>
  NamedPlace(const char* what, const TensorView<T>& tensor)
      : name(what), device(tensor.device()), empty(tensor.empty()) {}
};

/// Throws DeviceError unless all tensors that hold anything are where the memory of `saved` is.
inline void check_on_device(const char* operation, const Saved& saved,
                            std::initializer_list<NamedPlace> tensors) {
  for (const NamedPlace& tensor : tensors) {
    if (!tensor.empty && tensor.device != saved.device())
      throw DeviceError(
          fmt::format("{} was given {} on {}, but scratch memory (Saved) on {}; copy all to one device",
                      operation, tensor.name, to_string(tensor.device), to_string(saved.device())));
  }
}

/// Padding is set to zero: a number there would reach sums over all rows.
template <class T>
void clear_padding(const TokenLayout& layout, std::initializer_list<TensorView<T>> tensors) {
  if (!layout.has_padding()) return;
  for (const TensorView<T>& x : tensors) set_zero(x);
}

}  // namespace orthornn
