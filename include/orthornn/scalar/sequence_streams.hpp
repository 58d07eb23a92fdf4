#pragma once

#include "orthornn/scalar/philox.hpp"

namespace orthornn {

/// Random streams of the sequences in a batch, one each: sequence b has the stream of number first + b, or of
/// (factor (first + b) + offset) mod count out of `count` sequences, below 2^31.
struct SequenceStreams {
  std::uint64_t seed;
  RandomPurpose purpose;
  std::uint64_t first;
  /// 0: every number is a sequence of its own.
  std::uint64_t count = 0;
  /// Without a common divisor with `count`, so that `count` numbers in a row are all sequences, once each.
  std::uint64_t factor = 1;
  std::uint64_t offset = 0;

  constexpr PhiloxStream stream(std::int64_t b) const {
    const std::uint64_t number = first + static_cast<std::uint64_t>(b);
    return PhiloxStream(seed, purpose, count == 0 ? number : (factor * number + offset) % count);
  }
};

}  // namespace orthornn
