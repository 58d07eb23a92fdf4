#pragma once

#include <cuda_bf16.h>

#include <cstring>

namespace orthornn::cuda {

/// Term `term` of two numbers as sums of bfloat16, of which each is what those before it left, rounded: 8
/// bits of a significand with one term, 16 with two, 24 with three. An infinite number makes its second term
/// NaN.
__device__ __forceinline__ unsigned bf16_term_of(float x, float y, int term) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  for (int i = 0; i < term; ++i) {
    x -= __low2float(pair);
    y -= __high2float(pair);
    pair = __floats2bfloat162_rn(x, y);
  }
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

}  // namespace orthornn::cuda
