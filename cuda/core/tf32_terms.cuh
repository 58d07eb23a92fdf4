#pragma once
// Products of floats on tensor cores, which multiply tf32: floats whose significands have 11 bits.

#include <bit>

#include "cuda/core/ptx.cuh"

namespace orthornn::cuda {

/// A float as an operand: the nearest tf32, and with `exact` what that leaves, of which tensor cores read 11
/// bits. Both terms together are off by 2^-22 of the float at most. With `exact` the second term is NaN for
/// infinity and for floats that round to it, the 4096 largest.
template <bool exact>
struct Tf32Terms {
  unsigned of[exact ? 2 : 1];

  Tf32Terms() = default;
  __device__ __forceinline__ explicit Tf32Terms(float x) {
    if constexpr (exact) {
      // This is faster than ptx::round_to_tf32. The first term of a NaN may be 0, but its second one is NaN.
      of[0] = (std::bit_cast<unsigned>(x) + 0x1000U) & 0xFFFF'E000U;
      of[1] = std::bit_cast<unsigned>(x - std::bit_cast<float>(of[0]));
    } else {
      of[0] = ptx::round_to_tf32(x);
    }
  }
};

/// sums(m, j) += a[m] b[j] for 16 x 8 by 8 x 8, by the whole warp. The product of the two second terms is
/// left out. An instruction must wait for the one before it that has the same sum, so the sums take turns.
template <bool exact, int rows, int columns>
__device__ __forceinline__ void multiply_terms(const Tf32Terms<exact> (&a)[rows][4],
                                               const Tf32Terms<exact> (&b)[columns][2], const auto& sums) {
  const auto add_products = [&](int a_term, int b_term) {
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      const unsigned right[2] = {b[j][0].of[b_term], b[j][1].of[b_term]};
#pragma unroll
      for (int m = 0; m < rows; ++m) {
        const unsigned left[4] = {a[m][0].of[a_term], a[m][1].of[a_term], a[m][2].of[a_term],
                                  a[m][3].of[a_term]};
        ptx::mma_m16n8k8_tf32(sums(m, j), left, right);
      }
    }
  };
  if constexpr (exact) {
    add_products(1, 0);
    add_products(0, 1);
  }
  add_products(0, 0);
}

}  // namespace orthornn::cuda
