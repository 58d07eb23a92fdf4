#pragma once
// The end of gather_gradients.cuh: gradients of step sizes and of the logarithms of decays, from the sums of
// all warps.

#include "cuda/delta/gather_shape.cuh"

namespace orthornn::cuda {

/// Writes the gradients of the step sizes. Returns, for the thread's step, the part that came by the decay to
/// the chunk's end.
template <class Shape>
__device__ __forceinline__ float store_step_sizes(const GatherThread<Shape>& t) {
  const auto& sums = t.sums;
  const int r = t.thread;
  float of_end = 0;
  if (r < Shape::steps) {
    float d_beta = 0;
    for (int p = 0; p < Shape::parts; ++p) {
      of_end += sums.end_dot[p][r];
      d_beta += sums.beta[p][r];
    }
    of_end *= t.end_of(r);
    const ChunkPlace chunk = t.group.chunk(r / Shape::chunk_rows);
    if (r % Shape::chunk_rows < chunk.steps)
      *step_rows(t.gradients.d_betas, 1, t.a.sizes, chunk)[r % Shape::chunk_rows] = d_beta + of_end;
  }
  return of_end;
}

/// Sums of the derivatives with respect to the logarithm g of each step, then of each token. By all threads.
template <class Shape>
__device__ __forceinline__ void sum_log_decays(const GatherThread<Shape>& t, float of_end) {
  auto& logs = t.logs;
  const int r = t.thread;
  if (r < Shape::steps) {
    of_end *= t.sums.betas[r];
    float log = -of_end;
    for (int p = 0; p < Shape::parts; ++p) log -= t.start_of(r) * logs.start_dot[p][r] + logs.row[p][r];
    for (int i = 0; i < Shape::rows; ++i) log += logs.step[i][r];
    logs.step_sums[r] = log;
    logs.step_high[r] = of_end;  // nothing else is read there any more
  }
  __syncthreads();
  if (r < Shape::steps) {
    float sum = 0;
    if (r < t.place.tokens) {
      const int first = t.group.row_of(r);
      for (int i = first; i < first + t.a.sizes.factors; ++i) sum += logs.step_sums[i];
      for (int i = 0; i < Shape::rows; ++i) sum += logs.token[i][r];
      for (int p = 0; p < Shape::parts; ++p) sum += t.read_of(r) * logs.query_dot[p][r];
    }
    logs.token_sums[r] = sum;
  }
  __syncthreads();
}

/// Writes the gradients of the logarithms of decays: sums over each token and those after it. By one warp.
template <class Shape>
__device__ __forceinline__ void store_log_decays(const GatherThread<Shape>& t) {
  const auto& logs = t.logs;
  const int thread = t.thread;
  // A lane has `count` tokens, one after another, and all that the whole chunk's decay has part in.
  constexpr int count = Shape::steps / 32;
  float whole = 0, own[count], after = 0;
  for (int i = thread; i < Shape::threads / 32; i += 32) whole += logs.state_dot[i];
  whole *= logs.sums.up_to(t.last_token);
#pragma unroll
  for (int i = 0; i < count; ++i) whole += logs.step_high[thread * count + i];
  whole = warp_sum(whole);
#pragma unroll
  for (int i = count; i-- > 0;) own[i] = after += logs.token_sums[thread * count + i];
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const float x = __shfl_down_sync(whole_warp, after, offset);
    if (thread + offset < 32) after += x;
  }
  const float of_later_lanes = __shfl_down_sync(whole_warp, after, 1);
  const float later = whole + (thread < 31 ? of_later_lanes : 0.0F);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int token = thread * count + i;
    if (token < t.place.tokens)
      *token_rows(t.gradients.d_log_decays, 1, t.a.sizes, t.place)[token] = own[i] + later;
  }
}

}  // namespace orthornn::cuda
