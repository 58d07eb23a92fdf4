#pragma once
// What the layers of frames have in common: their options' members height, width, kernel_size and, of the
// recurrences among them, hidden_size.

#include <fmt/format.h>

#include "orthornn/core/error.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Pixels q^2 of a kernel. Throws ShapeError where they do not fit in 63 bits.
template <class Options>
Index offsets_of(const Options& options) {
  return Shape{options.kernel_size, options.kernel_size}.count();
}

/// Channels C of frames of `input_size` numbers. Throws ValueError for sizes below 1, an even kernel size,
/// and for numbers that are no whole frames.
template <class Options>
Index channels_of(const Options& options, Index input_size) {
  const auto check = [](Index size, const char* what) {
    if (size < 1) throw ValueError(fmt::format("{}: {} {}; expected at least 1", Options::name, what, size));
  };
  if constexpr (requires { options.hidden_size; }) check(options.hidden_size, "hidden size");
  check(options.height, "height");
  check(options.width, "width");
  check(options.kernel_size, "kernel size");
  if (options.kernel_size % 2 == 0)
    throw ValueError(
        fmt::format("{}: kernel size {}; expected an odd number", Options::name, options.kernel_size));
  const Index pixels = Shape{options.height, options.width}.count();
  if (input_size < 1 || input_size % pixels != 0) {
    throw ValueError(
        fmt::format("{}: {} inputs; expected the {} x {} pixels of a frame, once for each channel",
                    Options::name, input_size, options.height, options.width));
  }
  return input_size / pixels;
}

}  // namespace orthornn
