#pragma once
// bfloat16 as a type of storage, for all devices. It is constexpr, so that kernels can use it.

#include <bit>
#include <cstdint>

namespace orthornn {

/// A number of 16 bits, the upper half of a float: 8 bits of exponent, significands of 8 bits. It is stored
/// and converted; arithmetic is done in float.
class bfloat16 {
 public:
  /// An unspecified number.
  bfloat16() = default;
  /// Rounds to the nearest bfloat16, ties to the one whose last bit is 0. Numbers from 0x1.ffp127 on become
  /// infinite. A NaN stays a NaN.
  constexpr explicit bfloat16(float number) {
    const auto bits = std::bit_cast<std::uint32_t>(number);
    const bool is_nan = (bits & 0x7FFF'FFFF) > 0x7F80'0000;
    // A NaN whose upper half has no bit set in the significand would become infinite.
    const std::uint32_t rounded = is_nan ? bits | 0x0040'0000 : bits + 0x7FFF + (bits >> 16 & 1);
    bits_ = static_cast<std::uint16_t>(rounded >> 16);
  }
  /// Converts to float, exactly.
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }

  /// The 16 bits as they are stored.
  constexpr std::uint16_t bits() const { return bits_; }

 private:
  std::uint16_t bits_;
};
static_assert(sizeof(bfloat16) == 2);

}  // namespace orthornn
