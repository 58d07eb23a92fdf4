#pragma once

#include <cuda_bf16.h>

#include <cstring>

namespace orthornn::cuda {

/// Two numbers, rounded to bfloat16: x in the lower half of the bits, y in the upper.
__device__ __forceinline__ unsigned bf16_pair(float x, float y) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// Term `term` of two numbers as sums of bfloat16, of which each is what those before it left, rounded: 8
/// bits of a significand with one term, 16 with two, 24 with three. An infinite number makes its second term
/// NaN.
__device__ __forceinline__ unsigned bf16_term_of(float x, float y, int term) {
  unsigned pair = bf16_pair(x, y);
  for (int i = 0; i < term; ++i) {
    // The bits of a bfloat16 are the upper half of a float's.
    x -= __uint_as_float(pair << 16);
    y -= __uint_as_float(pair & 0xFFFF'0000U);
    pair = bf16_pair(x, y);
  }
  return pair;
}

}  // namespace orthornn::cuda
