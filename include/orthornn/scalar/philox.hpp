#pragma once
// The arithmetic of the random streams, for all devices. It is constexpr, so that kernels can call it.

#include <array>
#include <cstdint>

namespace orthornn {

/// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011):
/// 128 random bits as a function of a 128-bit counter and a 64-bit key.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
        static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Purpose of a stream of random numbers. Streams of one seed and different purposes never overlap.
// 4 was a purpose once.
enum class RandomPurpose : std::uint32_t {
  initialization = 1,  ///< Initial parameters.
  training = 2,        ///< Training batches.
  validation = 3,      ///< Validation data.
  shuffle = 5,         ///< Order of the data in an epoch.
  test = 6,            ///< Test data.
  split = 7,           ///< Which data are held out.
  dropout = 8,         ///< Masks of Dropout.
  selection = 9,       ///< Pairs of a text and elements of a group that a task uses.
  generation = 10      ///< Symbols of a text that a model writes.
};

/// A stream (seed, purpose, index) as key and first counter of Philox. The words of the counter are: running
/// number of the block, purpose, index (low, high). A stream has at most 2^32 blocks.
struct PhiloxStream {
  /// The seed as two words, the lower one first.
  std::array<std::uint32_t, 2> key;
  /// Counter of block 0.
  std::array<std::uint32_t, 4> counter;

  /// The stream (seed, purpose, index).
  constexpr PhiloxStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index)
      : key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        counter{0, static_cast<std::uint32_t>(purpose), static_cast<std::uint32_t>(index),
                static_cast<std::uint32_t>(index >> 32)} {}

  /// Block of this number: draws 4 `number` to 4 `number` + 3, counted from 0, of RandomStream::bits.
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t number) const {
    std::array<std::uint32_t, 4> at = counter;
    at[0] = static_cast<std::uint32_t>(number);
    return philox(at, key);
  }
  /// Draw number `draw` = 0, 1, .. of RandomStream::bits.
  constexpr std::uint32_t bits(std::uint64_t draw) const { return block(draw / 4)[draw % 4]; }
};

/// Maps 32 random bits to an integer uniform from 0 to bound - 1.
constexpr std::uint32_t integer_below(std::uint32_t bound, std::uint32_t bits) {
  return static_cast<std::uint32_t>((std::uint64_t{bits} * bound) >> 32);
}

/// Maps 32 random bits to a number uniform in [0, 1), a multiple of 2^-24, which float holds exactly. A
/// rounded double could be 1.
constexpr float uniform_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

}  // namespace orthornn
