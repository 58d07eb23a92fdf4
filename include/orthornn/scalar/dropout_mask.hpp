#pragma once
// For all devices. It is constexpr, so that kernels can use it.

#include <array>
#include <cmath>
#include <cstdint>

#include "orthornn/scalar/philox.hpp"

namespace orthornn {

/// Decides which numbers Dropout keeps: it keeps number i where draw i of the stream (key, dropout, stream)
/// is at least `threshold`.
struct DropoutMask {
  /// Number of the random stream, another one for each Dropout of a ParameterSet.
  std::uint64_t stream;
  /// The product rate 2^32, rounded.
  std::uint64_t threshold;
  /// Factor of the numbers that are kept, 1 / (1 - rate).
  double scale;

  /// A mask that drops a share `rate` of the numbers, 0 to below 1, by the stream of this number.
  DropoutMask(double rate, std::uint64_t number)
      : stream(number),
        threshold(static_cast<std::uint64_t>(std::llround(rate * 0x1p32))),
        scale(1 / (1 - rate)) {}

  /// Number of draws in one block of Philox.
  static constexpr int group = 4;
  /// Whether each of the numbers group * i to group * i + group - 1 is kept.
  constexpr std::array<bool, group> keeps(std::uint64_t key, std::int64_t i) const {
    const auto bits = PhiloxStream(key, RandomPurpose::dropout, stream).block(static_cast<std::uint64_t>(i));
    return {bits[0] >= threshold, bits[1] >= threshold, bits[2] >= threshold, bits[3] >= threshold};
  }
};

}  // namespace orthornn
