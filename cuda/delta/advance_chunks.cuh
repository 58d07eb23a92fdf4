#pragma once
// Second kernel of the chunked delta product: from chunk to chunk, the only part with an order in time.
//
// A block has 64 values of one head of one sequence, and each of its first four warps 16 of them. Values do
// not mix. So a warp keeps its 16 rows of the transposed state [V, K] in registers over the whole sequence,
// and every product below has an operand that this warp itself has just computed: nothing is written to
// shared memory. For each chunk, with everything transposed:
//
//   1. expected = S^T K^T, errors w = v - start * expected      [16, C] from [16, K] and keys [C, K]
//   2. errors <- w (I + A)^-T                                   [16, C] from the inverse [C, C]
//   3. outputs = read * Q S + P errors^T                        [tokens, 16]
//   4. S^T <- whole * S^T + (end * errors) K                    [16, K]
//
// The other four warps load the next chunk meanwhile; all meet once a chunk. A computing warp has a scheduler
// of its own, and addresses take many dependent instructions: when these warps loaded too, a chunk took 6.3
// us in place of 4.1 (and of 3.1 now).
//
// Shared memory, twice: keys [C, K], queries [tokens, K], values [C, 64], inverse [C, C], scores [tokens, C],
// scales. Once a warp: 16 rows of what is kept for the backward, [16, K] and [16, C], on their way to global
// memory.

#include <type_traits>

#include "cuda/delta/chunked_arguments.cuh"

namespace orthornn::cuda {

template <class Product, int padded_key>
struct Advance {
  static constexpr int steps = chunk_steps<Product, padded_key>;
  static constexpr int values = 64;
  /// Those that compute, and as many that load.
  static constexpr int threads = 128;
  using Scales = ChunkScales<steps>;
  using KeyTile = Tile<Product, padded_key>;
  using ValueTile = Tile<Product, values>;
  using StepTile = Tile<Product, steps>;

  struct Stage {
    KeyTile keys, queries;
    ValueTile values;
    StepTile inverse, scores;
    float* scales;
  };
  static constexpr std::size_t stage_bytes(int padded_tokens) {
    return KeyTile::bytes(steps + padded_tokens) + ValueTile::bytes(steps) +
           StepTile::bytes(steps + padded_tokens) + sizeof(float) * Scales::count;
  }
  /// Of a warp, for what leaves it.
  static constexpr std::size_t leaving_bytes = KeyTile::packed ? KeyTile::bytes(16) + StepTile::bytes(16) : 0;
  static std::size_t shared(int padded_tokens) { return 2 * stage_bytes(padded_tokens) + 4 * leaving_bytes; }

  using E = typename Product::Element;
  static __device__ __forceinline__ Stage stage(int number, int padded_tokens) {
    E* next = reinterpret_cast<E*>(dynamic_shared_memory() + number * stage_bytes(padded_tokens));
    const auto take = [&](int count) {
      E* const here = next;
      next += count;
      return here;
    };
    Stage s;
    s.keys = {take(steps * padded_key)};
    s.queries = {take(padded_tokens * padded_key)};
    s.values = {take(steps * values)};
    s.inverse = {take(steps * steps)};
    s.scores = {take(padded_tokens * steps)};
    s.scales = reinterpret_cast<float*>(next);
    return s;
  }
};

/// Rows `value` and `value` + 8 of a transposed state [K, V], or zeros without one.
template <int tiles>
__device__ __forceinline__ void load_state(Rows<tiles>& rows, const float* state, const ChunkSizes& sizes,
                                           int value) {
  rows.set_zero();
  if (state == nullptr) return;
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = 8 * j + lane_column() + i % 2, v = value + i / 2 * 8;
      const bool inside = k < sizes.key && v < sizes.value;
      const float x = state[inside ? static_cast<Index>(k) * sizes.value + v : 0];
      rows.tile[j][i] = inside ? x : 0.0F;
    }
  }
}
template <int tiles>
__device__ __forceinline__ void store_state(const Rows<tiles>& rows, float* state, const ChunkSizes& sizes,
                                            int value) {
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = 8 * j + lane_column() + i % 2, v = value + i / 2 * 8;
      if (k < sizes.key && v < sizes.value) state[static_cast<Index>(k) * sizes.value + v] = rows.tile[j][i];
    }
  }
}

/// Sends 16 rows of a warp to an image in global memory. Rows of bfloat16 go by way of shared memory and a
/// bulk copy, which writes whole lines: keeping the states took 0.09 ms without it and takes 0.03 (B 8, T
/// 4096, 8 heads, K = V = 128). Rows of floats are written from registers, 32 bytes by four lanes.
template <int tiles, class Product, int columns>
__device__ __forceinline__ void send_rows(const Rows<tiles>& rows, const Tile<Product, columns>& leaving,
                                          typename Product::Element* image) {
  static_assert(8 * tiles == columns);
  if constexpr (!leaving.packed) {
    const Tile<Product, columns> to{image};
#pragma unroll
    for (int j = 0; j < tiles; j += 2) to.store(Product::left(rows.tile[j], rows.tile[j + 1]), 0, 8 * j);
    return;
  }
  const bool first_lane = threadIdx.x % 32 == 0;
  if (first_lane) ptx::copy_bulk_wait_read();
  __syncwarp();
#pragma unroll
  for (int j = 0; j < tiles; j += 2) leaving.store(Product::left(rows.tile[j], rows.tile[j + 1]), 0, 8 * j);
  ptx::fence_proxy_async();
  __syncwarp();
  if (first_lane) ptx::copy_bulk_to_global(image, leaving.data, static_cast<unsigned>(leaving.bytes(16)));
}

template <class Product, int padded_key>
__global__ __launch_bounds__(256) void advance_chunks(ChunkedArguments<typename Product::Element> a) {
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

  const auto load = [&](Index chunk) {
    const int thread = static_cast<int>(threadIdx.x) - Shape::threads;
    const auto stage = Shape::stage(static_cast<int>(chunk % 2), padded_tokens);
    const ChunkPlace place(a.sizes, sequence, first, chunk, head);
    load_rows<Shape::threads, steps>(thread, stage.keys, steps,
                                     step_rows(a.keys, a.sizes.key, a.sizes, place), a.sizes.key, 0,
                                     place.steps, a.aligned_keys);
    load_rows<Shape::threads, steps>(thread, stage.values, steps,
                                     step_rows(a.values, a.sizes.value, a.sizes, place), a.sizes.value,
                                     block_value, place.steps, a.aligned_values);
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
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      load(chunk);
      __syncthreads();  // this chunk has come, and the one before is not read any more
    }
    return;
  }

  Rows<key_tiles> state;
  const Index state_place = (b * a.sizes.heads + head) * a.sizes.key * a.sizes.value;
  load_state(state, a.initial_states == nullptr ? nullptr : a.initial_states + state_place, a.sizes, value);
  unsigned char* const leaving = dynamic_shared_memory() + 2 * Shape::stage_bytes(padded_tokens) +
                                 threadIdx.x / 32 * Shape::leaving_bytes;
  const typename Shape::KeyTile leaving_state{reinterpret_cast<E*>(leaving)};
  const typename Shape::StepTile leaving_errors{leaving_state.data + 16 * padded_key};

  for (Index chunk = 0; chunk < chunks; ++chunk) {
    __syncthreads();
    const auto stage = Shape::stage(static_cast<int>(chunk % 2), padded_tokens);
    const ChunkPlace place(a.sizes, sequence, first, chunk, head);
    const Index kept_row = place.slot * a.sizes.padded_value + block_value + warp_value;
    if (a.states != nullptr) send_rows(state, leaving_state, a.states + kept_row * padded_key);

    // 1. What the state does not expect.
    Rows<step_tiles> errors;
    errors.set_zero();
#pragma unroll
    for (int k = 0; k < padded_key; k += 16) {
      const auto left = Product::left(state.tile[k / 8], state.tile[k / 8 + 1]);
#pragma unroll
      for (int n = 0; n < steps; n += 16) {
        Right right[2];
        stage.keys.right_transposed(right, n, k);
        Product::multiply(errors.tile[n / 8], left, right[0]);
        Product::multiply(errors.tile[n / 8 + 1], left, right[1]);
      }
    }
#pragma unroll
    for (int n = 0; n < steps; n += 16) {
      float values[2][4];
      Product::unpack(stage.values.left_transposed(n, warp_value), values[0], values[1]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 start =
            *reinterpret_cast<const float2*>(stage.scales + Shape::Scales::start + n + 8 * j + lane_column());
        float(&x)[4] = errors.tile[n / 8 + j];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = values[j][i] - (i % 2 == 0 ? start.x : start.y) * x[i];
      }
    }
    // 2. The errors when those before have been mended.
    Rows<step_tiles> solved;
    solved.set_zero();
#pragma unroll
    for (int s = 0; s < steps; s += 16) {
      const auto left = Product::left(errors.tile[s / 8], errors.tile[s / 8 + 1]);
#pragma unroll
      for (int n = s; n < steps; n += 16) {
        Right right[2];
        stage.inverse.right_transposed(right, n, s);
        Product::multiply(solved.tile[n / 8], left, right[0]);
        Product::multiply(solved.tile[n / 8 + 1], left, right[1]);
      }
    }
    if (a.errors != nullptr) send_rows(solved, leaving_errors, a.errors + kept_row * steps);
    // 3. Outputs.
    const auto outputs = token_rows(a.outputs, a.sizes.value, a.sizes, place);
    // All rows of 16 tokens at once: one after another they would wait for two sums each. That took 2 us a
    // chunk.
    const auto read_out = [&](auto count) {
      constexpr int tiles = decltype(count)::value;
      float sums[tiles][2][4] = {};
#pragma unroll
      for (int k = 0; k < padded_key; k += 16) {
        const Right right[2] = {Product::right(state.tile[k / 8], state.tile[k / 8 + 1], 0),
                                Product::right(state.tile[k / 8], state.tile[k / 8 + 1], 1)};
#pragma unroll
        for (int i = 0; i < tiles; ++i) {
          const auto left = stage.queries.left(16 * i, k);
          Product::multiply(sums[i][0], left, right[0]);
          Product::multiply(sums[i][1], left, right[1]);
        }
      }
#pragma unroll
      for (int i = 0; i < tiles; ++i) {
        const float* const read = stage.scales + Shape::Scales::read + 16 * i + lane_row();
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][0][j] *= read[j / 2 * 8];
          sums[i][1][j] *= read[j / 2 * 8];
        }
      }
#pragma unroll
      for (int s = 0; s < steps; s += 16) {
        const Right right[2] = {Product::right(solved.tile[s / 8], solved.tile[s / 8 + 1], 0),
                                Product::right(solved.tile[s / 8], solved.tile[s / 8 + 1], 1)};
#pragma unroll
        for (int i = 0; i < tiles; ++i) {
          // Four rows of 16 tokens have n = 1.
          if (tiles == 4 ? s > 16 * i : s >= 16 * (i + 1) * a.sizes.factors) continue;
          const auto left = stage.scores.left(16 * i, s);
          Product::multiply(sums[i][0], left, right[0]);
          Product::multiply(sums[i][1], left, right[1]);
        }
      }
#pragma unroll
      for (int i = 0; i < 2 * tiles; ++i) {
        const int token = lane_row() + 8 * i;
        if (token >= place.tokens) continue;
        E* const to = outputs[token];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int column = block_value + warp_value + 8 * half + lane_column();
          const float* const x = sums[i / 2][half] + i % 2 * 2;
          store_pair(to + column, x[0], x[1], a.sizes.value - column, a.paired_values);
        }
      }
    };
    if (padded_tokens == 16) {
      read_out(std::integral_constant<int, 1>());
    } else if (padded_tokens == 32) {
      read_out(std::integral_constant<int, 2>());
    } else if constexpr (steps == 64) {
      read_out(std::integral_constant<int, 4>());
    }
    // 4. The next state.
    if (a.log_decays != nullptr) {
      const float whole = stage.scales[Shape::Scales::whole];
#pragma unroll
      for (auto& tile : state.tile) {
#pragma unroll
        for (float& x : tile) x *= whole;
      }
    }
#pragma unroll
    for (int s = 0; s < steps; s += 16) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float2 end =
            *reinterpret_cast<const float2*>(stage.scales + Shape::Scales::end + s + 8 * j + lane_column());
        float(&x)[4] = solved.tile[s / 8 + j];
        x[0] *= end.x, x[1] *= end.y, x[2] *= end.x, x[3] *= end.y;
      }
      const auto left = Product::left(solved.tile[s / 8], solved.tile[s / 8 + 1]);
#pragma unroll
      for (int k = 0; k < padded_key; k += 16) {
        Right right[2];
        stage.keys.right(right, s, k);
        Product::multiply(state.tile[k / 8], left, right[0]);
        Product::multiply(state.tile[k / 8 + 1], left, right[1]);
      }
    }
  }

  // Shared memory of a block that has ended belongs to the next one.
  if (threadIdx.x % 32 == 0) ptx::copy_bulk_wait_read();
  if (a.final_states != nullptr) store_state(state, a.final_states + state_place, a.sizes, value);
}

}  // namespace orthornn::cuda
