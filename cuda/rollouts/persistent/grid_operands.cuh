#pragma once
// Operands of mma.sync for a product of Q with the state whose numbers are sums of bfloat16.

#include <type_traits>

#include "cuda/core/bf16_terms.cuh"
#include "cuda/core/ptx.cuh"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// Numbers of Q and of the state as sums of `Terms` bfloat16, of which each is what those before it left,
/// rounded: 8 bits of a significand with one term, 16 with two, 24 with three. Products of terms below
/// 2^-8 (2^-16, 2^-24) of the whole are left out. Blocks exchange one term or two; with three they exchange
/// float, and each warp splits what it reads.
///
/// A lane holds rows g and g + 8 and columns l of a fragment: lane = 4 g + l. Columns may come in any order,
/// if those of the state come in the same: lane l has neighbours, 16 bytes of the state, in one load.
template <int Terms>
struct GridOperands {
  static constexpr int terms = Terms;
  using Exchanged = std::conditional_t<Terms == 1, __nv_bfloat16, float>;
  /// Numbers of the state in a lane's load, and columns of Q that four lanes then have: a chunk.
  static constexpr int lane_numbers = 16 / static_cast<int>(sizeof(Exchanged));
  static constexpr int chunk = 4 * lane_numbers;
  /// Instructions of 16 columns in a chunk.
  static constexpr int depths = chunk / 16;

  /// Register i of A: row g + 8 (i % 2), two columns. `read(row, column)` counts from the fragment's first
  /// row and the chunk's first column.
  template <class Read>
  static __device__ __forceinline__ unsigned left(int depth, int term, int i, int g, int l,
                                                  const Read& read) {
    const int row = g + i % 2 * 8, column = l * lane_numbers + depth * 4 + i / 2 * 2;
    return bf16_term_of(read(row, column), read(row, column + 1), term);
  }
  /// A number of the state as blocks exchange it, where each has a word: both of two terms, or a float, which
  /// three terms would not fit into.
  static __device__ __forceinline__ unsigned word_of(float x) {
    static_assert(Terms > 1);
    return Terms == 2 ? bf16_term_of(x, x - __low2float(__floats2bfloat162_rn(x, x)), 0) : __float_as_uint(x);
  }
  /// Both registers of B, of each instruction and term, from what a lane has loaded.
  struct State {
    unsigned registers[depths][Terms][2];

    __device__ __forceinline__ void take(const uint4& loaded) {
      const unsigned words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if constexpr (Terms == 1) {
          registers[0][0][i] = words[i];
          registers[1][0][i] = words[2 + i];
        } else if constexpr (Terms == 2) {
          // The lower and the upper halves of two words.
          registers[0][0][i] = __byte_perm(words[2 * i], words[2 * i + 1], 0x5410);
          registers[0][1][i] = __byte_perm(words[2 * i], words[2 * i + 1], 0x7632);
        } else {
#pragma unroll
          for (int term = 0; term < Terms; ++term) {
            registers[0][term][i] =
                bf16_term_of(__uint_as_float(words[2 * i]), __uint_as_float(words[2 * i + 1]), term);
          }
        }
      }
    }
  };
};

}  // namespace orthornn::cuda
