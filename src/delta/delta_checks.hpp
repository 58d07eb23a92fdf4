#pragma once
// What the operations of this stage ask of their arguments.

#include <fmt/format.h>

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

/// A tensor that an operation was given, as messages name it, and the shape that it must have.
struct CheckedTensor {
  const char* name;
  Device device;
  bool empty;
  Shape found, expected;
  /// Whether it may also be empty.
  bool optional;

  template <class T>
  CheckedTensor(const char* what, const TensorView<T>& tensor, const Shape& shape, bool is_optional = false)
      : name(what),
        device(tensor.device()),
        empty(tensor.empty()),
        found(tensor.shape()),
        expected(shape),
        optional(is_optional) {}
};
/// Of a tensor that may also be empty.
inline constexpr bool if_any = true;

/// Throws DeviceError unless all tensors that hold anything are where the memory of `saved` is, and
/// ShapeError unless they have their shapes.
inline void check_tensors(const char* operation, const Saved& saved,
                          std::initializer_list<CheckedTensor> tensors) {
  for (const CheckedTensor& tensor : tensors) {
    if (!tensor.empty && tensor.device != saved.device())
      throw DeviceError(
          fmt::format("{} was given {} on {}, but scratch memory (Saved) on {}; copy all to one device",
                      operation, tensor.name, to_string(tensor.device), to_string(saved.device())));
  }
  for (const CheckedTensor& tensor : tensors) {
    if (!(tensor.optional && tensor.empty)) check_shape(tensor.name, tensor.found, tensor.expected);
  }
}

/// Calls forward(), which pushes what a backward reads. Where it throws, for example because memory is short,
/// the stack is as it was.
template <class Forward>
void push_all_or_nothing(Saved& saved, const Forward& forward) {
  const Index before = saved.size();
  try {
    forward();
  } catch (...) {
    saved.pop(saved.size() - before);
    throw;
  }
}

/// Padding is set to zero: a number there would reach sums over all rows.
template <class T>
void clear_padding(const TokenLayout& layout, std::initializer_list<TensorView<T>> tensors) {
  if (!layout.has_padding()) return;
  for (const TensorView<T>& x : tensors) set_zero(x);
}

}  // namespace orthornn
