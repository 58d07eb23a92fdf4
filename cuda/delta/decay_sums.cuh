#pragma once
// Decays between the tokens of a chunk.

#include "cuda/delta/chunk_geometry.cuh"

namespace orthornn::cuda {

/// Decays below e^-200 are 0 in a float, and so is what they decay.
inline constexpr float lowest_log_decay = -200.0F;

/// Of token t of a chunk. Tokens that are missing do not decay.
template <class Arguments>
__device__ __forceinline__ float log_decay(const Arguments& a, const ChunkPlace& place, int t) {
  return t < place.tokens ? *token_rows(a.log_decays, 1, a.sizes, place)[t] : 0.0F;
}

/// Sums of the logarithms of decays up to each token of a chunk, to base 2 and each in two floats, so that a
/// difference of two sums is exact to a float.
template <int steps>
struct DecaySums {
  float high[steps], low[steps];
  double first_half;

  /// By all threads of a block, which has `steps` at least. Thread t has the `log_decay` of token t, which it
  /// should have loaded long before.
  __device__ __forceinline__ void compute(float log) {
    const int t = static_cast<int>(threadIdx.x), lane = t % 32;
    constexpr double log2_e = 1.4426950408889634;
    double sum = log2_e * static_cast<double>(log < lowest_log_decay ? lowest_log_decay : log);
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const double before = __shfl_up_sync(whole_warp, sum, offset);
      if (lane >= offset) sum += before;
    }
    if (t == 31) first_half = sum;
    __syncthreads();
    if (t >= steps) return;
    if (t >= 32) sum += first_half;
    high[t] = static_cast<float>(sum);
    low[t] = static_cast<float>(sum - static_cast<double>(high[t]));
  }
  /// The decay from after token `from` to token `to`.
  __device__ __forceinline__ float between(int from, int to) const {
    return ptx::exp2((high[to] - high[from]) + (low[to] - low[from]));
  }
  /// From the begin of the chunk.
  __device__ __forceinline__ float up_to(int token) const { return ptx::exp2(high[token] + low[token]); }
};

}  // namespace orthornn::cuda
