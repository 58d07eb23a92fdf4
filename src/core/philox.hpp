#pragma once
// The arithmetic of the random streams, for all devices. It is constexpr, so that kernels can call it.

#include <array>
#include <cstdint>

#include "orthornn/core/random.hpp"

namespace orthornn {

/// The function of `philox` (orthornn/core/random.hpp).
constexpr std::array<std::uint32_t, 4> philox_block(std::array<std::uint32_t, 4> counter,
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

/// A stream (seed, purpose, index) as key and first counter, whose words are: running number of the block,
/// purpose, index (low, high). A stream has at most 2^32 blocks.
struct PhiloxStream {
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> counter;

  constexpr PhiloxStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index)
      : key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        counter{0, static_cast<std::uint32_t>(purpose), static_cast<std::uint32_t>(index),
                static_cast<std::uint32_t>(index >> 32)} {}

  /// What call number `draw` = 0, 1, .. of RandomStream::bits returns.
  constexpr std::uint32_t bits(std::uint64_t draw) const {
    std::array<std::uint32_t, 4> block = counter;
    block[0] = static_cast<std::uint32_t>(draw / 4);
    return philox_block(block, key)[draw % 4];
  }
};

/// Uniform in 0 .. bound - 1.
constexpr std::uint32_t integer_below(std::uint32_t bound, std::uint32_t bits) {
  return static_cast<std::uint32_t>((std::uint64_t{bits} * bound) >> 32);
}

/// Uniform in [0, 1): multiples of 2^-24, which float holds exactly; a rounded double could be 1.
constexpr float uniform_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

}  // namespace orthornn
