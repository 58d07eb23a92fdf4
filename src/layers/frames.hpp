#pragma once
// What the layers of frames have in common: their options' members height, width, kernel_size, hidden_size.

#include <fmt/format.h>

#include "orthornn/core/error.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Kernels of a step on a GPU: two convolutions, of which each gathers neighbours and multiplies, which may
/// be three kernels; the bias before them and a formula behind them.
inline constexpr Index kernels_of_frames = 10;

/// Channels C of frames of `input_size` numbers. Throws ValueError for sizes below 1, an even kernel size,
/// and for numbers that are no whole frames.
template <class Options>
Index channels_of(const Options& options, Index input_size) {
  for (const auto& [size, what] : {std::pair{options.hidden_size, "hidden size"},
                                   {options.height, "height"},
                                   {options.width, "width"},
                                   {options.kernel_size, "kernel size"}}) {
    if (size < 1) throw ValueError(fmt::format("{}: {} {}; expected at least 1", Options::name, what, size));
  }
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
