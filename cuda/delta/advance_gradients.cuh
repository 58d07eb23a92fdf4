#pragma once
// First kernel of the backward of the chunked delta product: from chunk to chunk, backward in time.
//
// As in advance_chunks.cuh, a warp keeps 16 rows of the transposed gradient of the state in registers. For
// each chunk:
//
//   1. d_errors = end * dS^T K^T + dO^T P                 [16, C]
//   2. d_errors <- d_errors (I + A)^-1, the gradients of the values [16, C]
//   3. dS^T <- whole * dS^T + (read * dO)^T Q - (start * d_errors) K
//
// Shared memory, twice: keys [C, K], queries [tokens, K], dO [C, 64], inverse [C, C], scores [tokens,
// C], scales.

#include "cuda/delta/advance_chunks.cuh"

namespace orthornn::cuda {

template <class Product, int padded_key>
__global__ __launch_bounds__(256) void advance_gradients(
    ChunkedArguments<typename Product::Element> a, ChunkedGradients<typename Product::Element> gradients) {
  using Shape = Advance<Product, padded_key>;
  using E = typename Product::Element;
  using Right = typename Product::Right;
  constexpr int steps = Shape::steps, key_tiles = padded_key / 8, step_tiles = steps / 8;
  const Index b = blockIdx.z;
  const int head = static_cast<int>(blockIdx.y), block_value = static_cast<int>(blockIdx.x) * Shape::values;
  const TokenSequence sequence = sequence_of(a.sizes.sequences, b);
  const Index first = first_chunk(a.sizes, sequence, b);
  const Index chunks = (sequence.count + a.sizes.tokens - 1) / a.sizes.tokens;
  const int padded_tokens = a.sizes.padded_tokens;
  const int warp_value = static_cast<int>(threadIdx.x) / 32 * 16;
  const int value = block_value + warp_value + lane_row();  // of this lane's first row

  // d_outputs take the place of the values.
  const auto load = [&](Index chunk) {
    const int thread = static_cast<int>(threadIdx.x) - Shape::threads;
    const auto stage = Shape::stage(static_cast<int>(chunk % 2), padded_tokens);
    const ChunkPlace place(a.sizes, sequence, first, chunk, head);
    load_rows<Shape::threads, steps>(thread, stage.keys, steps,
                                     step_rows(a.keys, a.sizes.key, a.sizes, place), a.sizes.key, 0,
                                     place.steps, a.aligned_keys);
    load_rows<Shape::threads, steps>(thread, stage.values, padded_tokens,
                                     token_rows(gradients.d_outputs, a.sizes.value, a.sizes, place),
                                     a.sizes.value, block_value, place.tokens, a.aligned_values);
    load_rows<Shape::threads, steps>(thread, stage.queries, padded_tokens,
                                     token_rows(a.queries, a.sizes.key, a.sizes, place), a.sizes.key, 0,
                                     place.tokens, a.aligned_keys);
    load_image<Shape::threads, steps>(thread, stage.inverse, steps, a.inverse + place.slot * steps * steps);
    load_image<Shape::threads, steps>(thread, stage.scores, padded_tokens,
                                      a.scores + place.slot * padded_tokens * steps);
    for (int i = thread; i < Shape::Scales::count / 4; i += Shape::threads)
      ptx::cp_async<16>(stage.scales + 4 * i, a.scales + place.slot * Shape::Scales::count + 4 * i);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
  };
  if (threadIdx.x >= Shape::threads) {
    for (Index chunk = chunks; chunk-- > 0;) {
      load(chunk);
      __syncthreads();  // this chunk has come, and the one after it is not read any more
    }
    return;
  }

  Rows<key_tiles> d_state;
  const Index state_place = (b * a.sizes.heads + head) * a.sizes.key * a.sizes.value;
  load_state(d_state, gradients.d_final_states == nullptr ? nullptr : gradients.d_final_states + state_place,
             a.sizes, value);
  unsigned char* const leaving = dynamic_shared_memory() + 2 * Shape::stage_bytes(padded_tokens) +
                                 threadIdx.x / 32 * Shape::leaving_bytes;
  const typename Shape::KeyTile leaving_state{reinterpret_cast<E*>(leaving)};
  const typename Shape::StepTile leaving_errors{leaving_state.data + 16 * padded_key};

  for (Index chunk = chunks; chunk-- > 0;) {
    __syncthreads();
    const auto stage = Shape::stage(static_cast<int>(chunk % 2), padded_tokens);
    const ChunkPlace place(a.sizes, sequence, first, chunk, head);
    const Index kept_row = place.slot * a.sizes.padded_value + block_value + warp_value;
    send_rows(d_state, leaving_state, gradients.d_states + kept_row * padded_key);

    // 1. Of the errors, by the state after the chunk and by the outputs.
    Rows<step_tiles> direct;
    direct.set_zero();
#pragma unroll
    for (int k = 0; k < padded_key; k += 16) {
      const auto left = Product::left(d_state.tile[k / 8], d_state.tile[k / 8 + 1]);
#pragma unroll
      for (int n = 0; n < steps; n += 16) {
        Right right[2];
        stage.keys.right_transposed(right, n, k);
        Product::multiply(direct.tile[n / 8], left, right[0]);
        Product::multiply(direct.tile[n / 8 + 1], left, right[1]);
      }
    }
#pragma unroll
    for (int j = 0; j < step_tiles; ++j) {
      const float2 end =
          *reinterpret_cast<const float2*>(stage.scales + Shape::Scales::end + 8 * j + lane_column());
      float(&x)[4] = direct.tile[j];
      x[0] *= end.x, x[1] *= end.y, x[2] *= end.x, x[3] *= end.y;
    }
    for (int t = 0; t < padded_tokens; t += 16) {
      const auto left = stage.values.left_transposed(t, warp_value);
#pragma unroll
      for (int n = 0; n < steps; n += 16) {
        if (n >= (t + 16) * a.sizes.factors) continue;
        Right right[2];
        stage.scores.right(right, t, n);
        Product::multiply(direct.tile[n / 8], left, right[0]);
        Product::multiply(direct.tile[n / 8 + 1], left, right[1]);
      }
    }
    // 2. Through the errors that were mended before.
    Rows<step_tiles> d_errors;
    d_errors.set_zero();
#pragma unroll
    for (int r = 0; r < steps; r += 16) {
      const auto left = Product::left(direct.tile[r / 8], direct.tile[r / 8 + 1]);
#pragma unroll
      for (int n = 0; n <= r; n += 16) {
        Right right[2];
        stage.inverse.right(right, r, n);
        Product::multiply(d_errors.tile[n / 8], left, right[0]);
        Product::multiply(d_errors.tile[n / 8 + 1], left, right[1]);
      }
    }
    send_rows(d_errors, leaving_errors, gradients.d_errors + kept_row * steps);
    // 3. Of the state before the chunk.
    if (a.log_decays != nullptr) {
      const float whole = stage.scales[Shape::Scales::whole];
#pragma unroll
      for (auto& tile : d_state.tile) {
#pragma unroll
        for (float& x : tile) x *= whole;
      }
    }
    for (int t = 0; t < padded_tokens; t += 16) {
      float x[2][4];
      Product::unpack(stage.values.left_transposed(t, warp_value), x[0], x[1]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 read =
            *reinterpret_cast<const float2*>(stage.scales + Shape::Scales::read + t + 8 * j + lane_column());
        x[j][0] *= read.x, x[j][1] *= read.y, x[j][2] *= read.x, x[j][3] *= read.y;
      }
      const auto left = Product::left(x[0], x[1]);
#pragma unroll
      for (int k = 0; k < padded_key; k += 16) {
        Right right[2];
        stage.queries.right(right, t, k);
        Product::multiply(d_state.tile[k / 8], left, right[0]);
        Product::multiply(d_state.tile[k / 8 + 1], left, right[1]);
      }
    }
#pragma unroll
    for (int s = 0; s < steps; s += 16) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 start =
            *reinterpret_cast<const float2*>(stage.scales + Shape::Scales::start + s + 8 * j + lane_column());
        float(&x)[4] = d_errors.tile[s / 8 + j];
        x[0] *= -start.x, x[1] *= -start.y, x[2] *= -start.x, x[3] *= -start.y;
      }
      const auto left = Product::left(d_errors.tile[s / 8], d_errors.tile[s / 8 + 1]);
#pragma unroll
      for (int k = 0; k < padded_key; k += 16) {
        Right right[2];
        stage.keys.right(right, s, k);
        Product::multiply(d_state.tile[k / 8], left, right[0]);
        Product::multiply(d_state.tile[k / 8 + 1], left, right[1]);
      }
    }
  }

  // Shared memory of a block that has ended belongs to the next one.
  if (threadIdx.x % 32 == 0) ptx::copy_bulk_wait_read();
  if (gradients.d_initial_states != nullptr)
    store_state(d_state, gradients.d_initial_states + state_place, a.sizes, value);
}

}  // namespace orthornn::cuda
