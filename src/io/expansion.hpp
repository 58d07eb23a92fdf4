#pragma once
// How far compressed data of a stranger may grow.

#include <cstdint>

namespace orthornn {

/// Deflate makes no data more than about a thousand times smaller, and numbers of measurements a few times.
/// What grows to gigabytes out of little is made to fill the memory.
inline constexpr std::uint64_t unsuspicious_bytes = std::uint64_t{1} << 30, largest_expansion = 200;

/// Whether `stored` bytes that become `expanded` ones are taken for a bomb.
inline bool expands_too_far(std::uint64_t expanded, std::uint64_t stored) {
  return expanded > unsuspicious_bytes && expanded / largest_expansion > stored;
}

}  // namespace orthornn
