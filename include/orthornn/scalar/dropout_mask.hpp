#pragma once
// Which numbers Dropout keeps, for all devices.

#include <array>
#include <cmath>
#include <cstdint>

#include "orthornn/scalar/philox.hpp"

namespace orthornn {

/// Number i is kept where draw i of the stream (key, dropout, stream) is at least `threshold`.
struct DropoutMask {
  std::uint64_t stream;
  /// rate 2^32, rounded.
  std::uint64_t threshold;
  /// 1 / (1 - rate)
  double scale;

  DropoutMask(double rate, std::uint64_t number)
      : stream(number),
        threshold(static_cast<std::uint64_t>(std::llround(rate * 0x1p32))),
        scale(1 / (1 - rate)) {}

  /// Draws of one block of Philox.
  static constexpr int group = 4;
  /// Whether each of the numbers group * i .. group * i + group - 1 is kept.
  constexpr std::array<bool, group> keeps(std::uint64_t key, std::int64_t i) const {
    const auto bits = PhiloxStream(key, RandomPurpose::dropout, stream).block(static_cast<std::uint64_t>(i));
    return {bits[0] >= threshold, bits[1] >= threshold, bits[2] >= threshold, bits[3] >= threshold};
  }
};

}  // namespace orthornn
