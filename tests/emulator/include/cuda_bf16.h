#pragma once

#include <bit>
#include <cmath>

#include "emulator/vector_types.hpp"
#include "emulator/warp_functions.hpp"

/// Numbers of 16 bits: the upper half of a float. From floats they are rounded to the nearest, ties to even.

struct __nv_bfloat16 {
  unsigned short bits;

  __nv_bfloat16() = default;
  __nv_bfloat16(float x) : bits(rounded(x)) {}
  operator float() const { return std::bit_cast<float>(static_cast<unsigned>(bits) << 16); }

 private:
  static unsigned short rounded(float x) {
    if (std::isnan(x)) return 0x7FFF;  // the only one that the device makes
    const auto u = std::bit_cast<unsigned>(x);
    return static_cast<unsigned short>((u + 0x7FFFU + ((u >> 16) & 1U)) >> 16);
  }
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;

  __nv_bfloat162() = default;
  __nv_bfloat162(__nv_bfloat16 x_, __nv_bfloat16 y_) : x(x_), y(y_) {}
};

inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }

inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {x.x, x.y}; }
inline float __low2float(__nv_bfloat162 x) { return x.x; }
inline float __high2float(__nv_bfloat162 x) { return x.y; }
