#pragma once

#include "orthornn/scalar/philox.hpp"

namespace orthornn {

/// Random streams of the sequences in a batch, one for each sequence. Sequence b has the stream of index
/// first + b. Where there are only `count` sequences, below 2^31, it has the stream of index
/// (factor (first + b) + offset) mod count.
struct SequenceStreams {
  /// Seed of all streams.
  std::uint64_t seed;
  /// Purpose of all streams.
  RandomPurpose purpose;
  /// Running number of the first sequence of the batch.
  std::uint64_t first;
  /// Number of different sequences; 0 where each running number is a sequence of its own.
  std::uint64_t count = 0;
  /// A number without a common divisor with `count`, so that `count` running numbers in a row give each
  /// sequence once.
  std::uint64_t factor = 1;
  /// A shift of the order.
  std::uint64_t offset = 0;

  /// Stream of sequence b of the batch.
  constexpr PhiloxStream stream(std::int64_t b) const {
    const std::uint64_t number = first + static_cast<std::uint64_t>(b);
    return PhiloxStream(seed, purpose, count == 0 ? number : (factor * number + offset) % count);
  }
};

}  // namespace orthornn
