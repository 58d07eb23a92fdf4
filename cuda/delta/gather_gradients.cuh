#pragma once
// Second kernel of the backward of the chunked delta product: the gradients of all inputs but the values, for
// all chunks at once.
//
// A block has one head of one chunk; with bfloat16 and K > 128 of two, which it takes as one chunk (below C
// is the rows of both). The formulas do not depend on where chunks begin, and a state is read for two chunks
// then. A warp has 16 rows of the results, the micro-steps or tokens from 16 m on, and 64 or 128 of the K
// columns. The formulas, with err the errors, z their gradients, unit keys f k, and scales as `ChunkScales`
// without beta where a beta is written:
//
// clang-format off
//   X_ts    = dO_t . err_s
//   M_rs    = z_r . err_s
//   dP_ts   = scale beta_s D_ts f_s X_ts    for s up to token t
//   G_rs    = -beta_s D_rs f_r f_s M_rs     for s < r
//   dq_t    = read_t S dO_t + sum_s dP_ts k_s
//   dk_r    = beta_r end_r dS err_r - start_r S z_r + sum_t dP_tr q_t + sum_s (G_rs + G_sr) k_s
//   dbeta_s = end_s k_s . dS err_s + sum_t (dP_ts / beta_s) q_t . k_s + sum_r (G_rs / beta_s) k_r . k_s
// clang-format on
//
// and dk_r - f_r^2 k_r (k_r . dk_r) where keys are made unit. The gradient of the decay a_t is the sum over
// the tokens from t on of the derivatives with respect to g.
//
//   1. X^T, M^T and dS err over the values, 32 at a time: all have the rows of err on the left
//   2. dP^T, G^T, and the sums that need D
//   3. S z and S dO over the values
//   4. The products of dP and G
//
// Shared memory: keys [C, K], queries [tokens, K], dP^T [C, tokens], G^T [C, C], sums, and two or three
// stages of 32 values: a state or its gradient [32, K], err and z [32, C], dO [tokens, 32], and for decays
// both, the gradient in the place of err. Results leave by way of the stages.
//
// A scheduler has two warps, and a warp waits 5 cycles an instruction. So the time is that of the
// instructions and of waits, not of bytes. With decays this kernel took 0.95 ms (B 1, T 32768, H 8, n = 3)
// with an exponential for every pair of rows, the product of the state and its gradient by multiply-adds, and
// step sizes that were loaded when they were needed. It takes 0.75 ms now, and 0.56 ms without decays.
//
// Floor for K = V = 128, n = 1: 192 KB to read and write a chunk, 0.19 ms for 4096 chunks and heads; 3600
// cycles of tensor cores a chunk, 0.06 ms.

#include <algorithm>

#include "cuda/core/reduce_scatter.cuh"
#include "cuda/delta/chunk_stages.cuh"
#include "cuda/delta/decay_sums.cuh"

namespace orthornn::cuda {

template <class Product, int padded_key, int padded_tokens, bool decays>
struct Gather {
  /// Chunks of a block, and rows of micro-steps of each and of all.
  static constexpr int chunks = gathered_chunks<Product, padded_key>,
                       chunk_rows = chunk_steps<Product, padded_key>, steps = chunks * chunk_rows;
  using Group = ChunkGroup<chunks, chunk_rows>;
  /// Values of a stage.
  static constexpr int values = state_rows;
  /// Columns of a warp, and warps side by side over the columns and over the rows.
  static constexpr int columns = Product::vector == 8 && padded_key >= 128 ? 128 : 64,
                       parts = padded_key / columns, rows = steps / 16;
  static constexpr int threads = 32 * parts * rows;
  /// Blocks that a multiprocessor shall hold: one loads while another computes.
  static constexpr int blocks = Product::vector == 8 && padded_key <= 128 ? 2 : 1;
  using E = typename Product::Element;
  using KeyTile = Tile<Product, padded_key, steps>;
  using QueryTile = Tile<Product, padded_key, padded_tokens>;
  using StateTile = Tile<Product, padded_key, values>;
  using ValueTile = Tile<Product, values>;
  using StepTile = Tile<Product, steps>;
  /// Of one chunk.
  using ErrorTile = Tile<Product, chunk_rows>;
  static constexpr std::size_t error_bytes = ErrorTile::bytes(values);
  // Rows of a tile are 64 bytes at least.
  using ScoreTile = Tile<Product, (padded_tokens < 32 ? 32 : padded_tokens)>;

  /// Sums of the rows of one part.
  struct Sums {
    float betas[steps], factors[steps];
    float end_dot[parts][steps], key_dot[parts][steps], beta[parts][steps];
  };
  /// What decays need beside.
  struct Logs {
    DecaySums<steps> sums;
    /// The decays from the last of the rows of a warp to a later token, and to a later micro-step times what
    /// makes its key unit. They are 0 for those before the rows.
    float to_token[rows][padded_tokens], to_step[rows][steps];
    float step_high[steps], step_low[steps];
    /// Of the rows of one part.
    float start_dot[parts][steps], query_dot[parts][steps], row[parts][steps];
    /// Of the columns of one warp of rows.
    float token[rows][padded_tokens], step[rows][steps];
    float state_dot[threads / 32], step_sums[steps], token_sums[steps];
  };
  /// Of errors, or of what decays need in their place.
  static constexpr std::size_t last_bytes =
      decays ? std::max(StateTile::bytes(values), chunks* error_bytes) : chunks * error_bytes;
  static constexpr std::size_t stage_bytes =
      StateTile::bytes(values) + chunks * error_bytes + ValueTile::bytes(padded_tokens) + last_bytes;
  static constexpr std::size_t shared_beside_stages =
      1024 + KeyTile::bytes(steps) + QueryTile::bytes(padded_tokens) + ScoreTile::bytes(steps) +
      StepTile::bytes(steps) + 64 + sizeof(Sums) + (decays ? sizeof(Logs) : 0);
  static constexpr bool fits(int stages) {
    return blocks * (shared_beside_stages + stages * stage_bytes + 1024) <= 228 * 1024;
  }
  // The more, the earlier a stage is loaded.
  static constexpr int stages = fits(3) ? 3 : 2;
  static_assert(fits(stages));
  static constexpr std::size_t shared = shared_beside_stages + stages * stage_bytes;
  // What leaves takes the place of the stages.
  static_assert(rows * parts * Tile<Product, columns>::bytes(16) <= stages * stage_bytes);
};

/// Lanes of a warp that share a row.
constexpr unsigned row_lanes = 4;

/// Writes to sums [8 tiles] what the eight lanes of each column have, x[2 j + c] for column c of tile j.
template <int tiles>
__device__ __forceinline__ void sum_columns(float (&x)[2 * tiles], float* sums) {
  using Columns = ReduceScatter<2 * tiles, 8, 4>;
  const unsigned lane = threadIdx.x % 32;
  Columns::run(x, lane);
  if (lane_row() % Columns::copies != 0) return;
  const int first = Columns::first(lane);
#pragma unroll
  for (int i = 0; i < Columns::left; ++i)
    sums[8 * ((first + i) / 2) + lane_column() + (first + i) % 2] = x[i];
}

/// Writes to sums[row ..] the products of 16 rows with those of a tile, over the columns from `column` on.
template <class Product, int tiles, int columns, int panel_rows>
__device__ __forceinline__ void row_dots(const Rows<tiles>& x, const Tile<Product, columns, panel_rows>& tile,
                                         int row, int column, float* sums) {
  float sum[2] = {};
#pragma unroll
  for (int k = 0; k < 8 * tiles; k += 16) {
    float y[2][4];
    Product::unpack(tile.left(row, column + k), y[0], y[1]);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i / 2] += x.tile[k / 8 + j][i] * y[j][i];
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float total = sum_over_lanes(sum[i], row_lanes);
    if (lane_column() == 0) sums[row + lane_row() + 8 * i] = total;
  }
}

/// Writes 16 rows from `row` on, those below `present`, and their columns from `column` on to a tensor. Rows
/// of whole vectors go by way of shared memory, so that a lane writes 16 bytes.
template <class Product, int tiles, class E>
__device__ __forceinline__ void store_gradients(const Rows<tiles>& x, const Tile<Product, 8 * tiles>& leaving,
                                                const ChunkRows<E>& rows, int row, int present, int column,
                                                int width, bool aligned) {
  if (aligned) {
    using Leaving = Tile<Product, 8 * tiles>;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < tiles; j += 2) leaving.store(Product::left(x.tile[j], x.tile[j + 1]), 0, 8 * j);
    __syncwarp();
    constexpr int vectors = Leaving::vectors;
#pragma unroll
    for (int i = 0; i < 16 * vectors; i += 32) {
      const int r = (i + static_cast<int>(threadIdx.x) % 32) / vectors,
                v = (i + static_cast<int>(threadIdx.x) % 32) % vectors, begin = column + v * Product::vector;
      if (row + r < present && begin < width)
        *reinterpret_cast<uint4*>(rows[row + r] + begin) =
            *reinterpret_cast<const uint4*>(leaving.at_vector(r, v));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row + lane_row() + 8 * i;
    if (r >= present) continue;
    E* const to = rows[r];
#pragma unroll
    for (int j = 0; j < tiles; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int place = column + 8 * j + lane_column() + c;
        if (place < width) to[place] = E(x.tile[j][2 * i + c]);
      }
    }
  }
}

template <class Product, int padded_key, int padded_tokens, bool decays>
__global__ __launch_bounds__(
    Gather<Product, padded_key, padded_tokens, decays>::threads,
    Gather<Product, padded_key, padded_tokens,
           decays>::blocks) void gather_gradients(ChunkedArguments<typename Product::Element> a,
                                                  ChunkedGradients<typename Product::Element> gradients) {
  using Shape = Gather<Product, padded_key, padded_tokens, decays>;
  using Products = RowProducts<Product, Shape::rows == 4>;
  using Left = typename Product::Left;
  using E = typename Product::Element;
  constexpr int steps = Shape::steps, chunks = Shape::chunks, chunk_rows = Shape::chunk_rows,
                threads = Shape::threads, columns = Shape::columns, step_tiles = steps / 8,
                token_tiles = padded_tokens / 8, column_tiles = columns / 8;
  const TokenSequence sequence = sequence_of(a.sizes.sequences, blockIdx.z);
  const Index chunk_number = static_cast<Index>(chunks) * blockIdx.x;
  if (chunk_number * a.sizes.tokens >= sequence.count) return;
  const int head = static_cast<int>(blockIdx.y);
  const Index first = first_chunk(a.sizes, sequence, blockIdx.z);
  const typename Shape::Group group(a.sizes, sequence, first, chunk_number, head);
  const ChunkPlace& place = group.all();
  const Index state_slot = group_slot<chunks>(a.sizes, first, blockIdx.z, chunk_number, head);

  // These come while addresses of the rest are computed.
  const int thread = static_cast<int>(threadIdx.x);
  float own_beta = 0, own_factor = 0, own_log = 0;
  if (thread < steps) {
    using Scales = ChunkScales<chunk_rows>;
    const ChunkPlace chunk = group.chunk(thread / chunk_rows);
    const int r = thread % chunk_rows;
    if (r < chunk.steps) {
      own_beta = *step_rows(a.betas, 1, a.sizes, chunk)[r];
      own_factor = a.scales[chunk.slot * Scales::count + Scales::factor + r];
    }
    if (decays) own_log = log_decay(a, place, thread);
  }

  const unsigned begin = ptx::shared_address(dynamic_shared_memory());
  unsigned char* next = dynamic_shared_memory() + (1024 - begin % 1024) % 1024;
  unsigned char* const stage_memory = next;
  next += Shape::stages * Shape::stage_bytes;
  const auto take = [&](std::size_t bytes) {
    E* const here = reinterpret_cast<E*>(next);
    next += bytes;
    return here;
  };
  struct Stage {
    typename Shape::StateTile state;
    E* all_d_errors;
    typename Shape::ValueTile d_outputs;
    // First errors. Then, for decays, the gradient of the state beside the state, in the same place.
    E* all_errors;
    typename Shape::StateTile d_state;

    __device__ __forceinline__ typename Shape::ErrorTile errors(int chunk) const {
      return {all_errors + chunk * Shape::values * chunk_rows};
    }
    __device__ __forceinline__ typename Shape::ErrorTile d_errors(int chunk) const {
      return {all_d_errors + chunk * Shape::values * chunk_rows};
    }
  };
  const auto stage = [&](int ring) -> Stage {
    E* const state = reinterpret_cast<E*>(stage_memory + ring * Shape::stage_bytes);
    E* const d_errors = state + Shape::values * padded_key;
    E* const d_outputs = d_errors + Shape::values * steps;
    E* const last = d_outputs + Shape::ValueTile::bytes(padded_tokens) / sizeof(E);
    return {{state}, d_errors, {d_outputs}, last, {last}};
  };
  const typename Shape::KeyTile keys{take(Shape::KeyTile::bytes(steps))};
  const typename Shape::QueryTile queries{take(Shape::QueryTile::bytes(padded_tokens))};
  const typename Shape::ScoreTile d_scores{take(Shape::ScoreTile::bytes(steps))};
  const typename Shape::StepTile d_gram{take(Shape::StepTile::bytes(steps))};
  auto* const barriers = reinterpret_cast<std::uint64_t*>(next);
  auto& sums = *reinterpret_cast<typename Shape::Sums*>(next + 64);
  auto& logs = *reinterpret_cast<typename Shape::Logs*>(next + 64 + sizeof(sums));

  const int warp = thread / 32, part = warp / Shape::rows, row = warp % Shape::rows * 16,
            column = columns * part, factors = a.sizes.factors;
  // Of this warp's rows among those of its chunk.
  const int own_chunk = row / chunk_rows, chunk_row = row % chunk_rows;
  // Rows beyond the tokens are those of others, and are not stored.
  const bool has_tokens = row < padded_tokens;
  const int token_row = has_tokens ? row : 0;
  // A warp has X or M, or both where a row of warps has one part.
  const bool has_scores = Shape::parts == 1 || part == 0,
             has_gram = Shape::parts == 1 || part == Shape::parts - 1;
  // A warpgroup has the products of both, as those in a branch would wait for one another.
  const bool multiplies_scores = Products::by_warpgroup || has_scores,
             multiplies_gram = Products::by_warpgroup || has_gram;

  // Stages are numbered: first all values with the gradients of the state, then all values with the state.
  const auto query_rows = token_rows(a.queries, a.sizes.key, a.sizes, place);
  const auto d_output_rows = token_rows(gradients.d_outputs, a.sizes.value, a.sizes, place);
  const int value_stages = a.sizes.padded_value / Shape::values;
  const int present = chunks == 1 || place.tokens > a.sizes.tokens ? chunks : chunks - 1;
  static_assert(chunks <= 2);
  const auto load = [&](int number, int ring) {
    if (number >= 2 * value_stages) return;
    const Stage s = stage(ring);
    const bool first = number < value_stages;
    const int value = (first ? number : number - value_stages) * Shape::values;
    // One thread starts all copies: they took longer when the warps took turns.
    if (thread == 0) {
      constexpr unsigned state_bytes = Shape::StateTile::bytes(Shape::values),
                         error_bytes = Shape::error_bytes;
      const bool both = decays && !first;
      ptx::mbarrier_arrive_expect(barriers + ring,
                                  (both ? 2 : 1) * state_bytes + (first ? 2 : 1) * present * error_bytes);
      const Index state = (state_slot * a.sizes.padded_value + value) * padded_key;
      ptx::copy_bulk_to_shared(s.state.data, (first ? gradients.d_states : a.states) + state, state_bytes,
                               barriers + ring);
      if (both)
        ptx::copy_bulk_to_shared(s.d_state.data, gradients.d_states + state, state_bytes, barriers + ring);
      for (int i = 0; i < present; ++i) {
        const Index errors = (group.chunk(i).slot * a.sizes.padded_value + value) * chunk_rows;
        if (first)
          ptx::copy_bulk_to_shared(s.errors(i).data, a.errors + errors, error_bytes, barriers + ring);
        ptx::copy_bulk_to_shared(s.d_errors(i).data, gradients.d_errors + errors, error_bytes,
                                 barriers + ring);
      }
    }
    load_rows<threads, padded_tokens>(thread, s.d_outputs, padded_tokens, d_output_rows, a.sizes.value, value,
                                      place.tokens, a.aligned_values);
    if (a.aligned_values) {
      ptx::cp_async_mbarrier_arrive(barriers + ring);
    } else {
      ptx::mbarrier_arrive(barriers + ring);
    }
  };
  const auto wait = [&](int number, int ring) {
    ptx::mbarrier_wait(barriers + ring, static_cast<unsigned>(number / Shape::stages) % 2);
    ptx::fence_proxy_async();  // wgmma reads what threads have copied
  };

  if (thread == 0) {
    for (int i = 0; i < Shape::stages; ++i) ptx::mbarrier_initialize(barriers + i, threads + 1);
    ptx::mbarrier_fence_initialization();
  }
#pragma unroll
  for (int i = 0; i < chunks; ++i) {
    const ChunkPlace chunk = group.chunk(i);
    const auto rows = step_rows(a.keys, a.sizes.key, a.sizes, chunk);
    RowCopies<threads, chunk_rows, typename Shape::KeyTile>(thread, rows, a.sizes.key, 0, a.aligned_keys)
        .start({keys.data + i * chunk_rows * Shape::KeyTile::row_size}, rows, chunk.steps);
  }
  RowCopies<threads, padded_tokens, typename Shape::QueryTile>(thread, query_rows, a.sizes.key, 0,
                                                               a.aligned_keys)
      .start(queries, query_rows, place.tokens);
  ptx::cp_async_commit();
  if (present < chunks) {  // no copy brings errors of the chunk that is missing
    for (int i = thread; i < Shape::stages * Shape::values * chunk_rows; i += threads) {
      const Stage s = stage(i / (Shape::values * chunk_rows));
      const int place_in_tile = i % (Shape::values * chunk_rows);
      s.errors(chunks - 1).data[place_in_tile] = E(0.0F);
      s.d_errors(chunks - 1).data[place_in_tile] = E(0.0F);
    }
    ptx::fence_proxy_async();  // gradients of states may be copied to the same place
  }
  __syncthreads();  // the barriers are initialized
#pragma unroll
  for (int i = 0; i < Shape::stages; ++i) load(i, i);
  if (thread < steps) {
    sums.betas[thread] = own_beta;
    sums.factors[thread] = own_factor;
  }
  if (decays) logs.sums.compute(own_log);
  ptx::cp_async_wait<0>();
  ptx::fence_proxy_async();
  __syncthreads();
  if (decays && thread < steps) {
    const int t = group.token_of(thread);
    logs.step_high[thread] = logs.sums.high[t];
    logs.step_low[thread] = logs.sums.low[t];
  }
  // The decays from the chunk's begin to a micro-step and from there to the chunk's end, times what makes the
  // key unit. Missing tokens do not decay.
  const int last_token = chunks * a.sizes.tokens - 1;
  const auto start_of = [&](int r) {
    return sums.factors[r] * (decays ? logs.sums.up_to(group.token_of(r)) : 1.0F);
  };
  const auto end_of = [&](int r) {
    return sums.factors[r] * (decays ? logs.sums.between(group.token_of(r), last_token) : 1.0F);
  };

  // 1. Products with the errors.
  Rows<column_tiles> d_key;  // dS err
  Rows<token_tiles> scores;
  Rows<step_tiles> gram;
  d_key.set_zero();
  scores.set_zero();
  gram.set_zero();
  int ring = 0;
#pragma unroll 1
  for (int number = 0; number < value_stages; ++number) {
    wait(number, ring);
    const Stage s = stage(ring);
    Left of_error[2];
#pragma unroll
    for (int v = 0; v < 2; ++v) of_error[v] = s.errors(own_chunk).left_transposed(16 * v, chunk_row);
    Products::fence();
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      Products::template over_rows<columns, true>(d_key.tile, of_error[v], s.state, 16 * v, column);
      if (multiplies_scores)
        Products::template with_rows<padded_tokens, true>(scores.tile, of_error[v], s.d_outputs, 0, 16 * v);
      if (multiplies_gram) {
#pragma unroll
        for (int i = 0; i < chunks; ++i)
          Products::template over_rows<chunk_rows, true>(gram.tile + i * chunk_rows / 8, of_error[v],
                                                         s.d_errors(i), 16 * v, 0);
      }
    }
    Products::commit();
    Products::template wait<0>(d_key, scores, gram);
    __syncthreads();
    load(number + Shape::stages, ring);
    ring = ring + 1 == Shape::stages ? 0 : ring + 1;
  }
  // 2. Through the scores, and through the coupling of micro-steps.
  row_dots(d_key, keys, row, column, sums.end_dot[part]);
  float row_beta[2], row_factor[2], high[2], low[2], of_beta[2] = {}, of_log[2] = {};
  // Of the tokens of rows, and the first rows of the tokens after them.
  int row_token[2], later_row[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row + lane_row() + 8 * i;
    row_beta[i] = sums.betas[r];
    row_factor[i] = sums.factors[r];
    row_token[i] = group.token_of(r);
    if (decays) {
      high[i] = logs.step_high[r], low[i] = logs.step_low[r];
      later_row[i] = group.row_of(row_token[i] + 1);
    }
    const float end = row_beta[i] * end_of(r);
#pragma unroll
    for (auto& tile : d_key.tile) tile[2 * i] *= end, tile[2 * i + 1] *= end;
  }
  const float scales[2] = {a.scale * row_factor[0], a.scale * row_factor[1]};
  // What makes X and M gradients of the scores and of the coupling, without beta, has the decay from this
  // lane's row to a later one. For the tiles that may have columns before the last row of the warp, `near`,
  // it is an exponential. For later ones it is the decay to this last row times that from there, a product.
  // The tokens of 16 rows lie in two tiles of 8, or in three where the second chunk begins within a tile.
  constexpr int near_tiles = chunks == 1 ? 2 : 3;
  const int first_token = group.token_of(row), first_near = first_token / 8;
  float near_tokens[near_tiles][4], near_steps[2][4], to_last[2];
  if constexpr (decays) {
    const auto decay_to = [&](const float* highs, const float* lows, int to, int i) {
      return ptx::exp2((highs[to] - high[i]) + (lows[to] - low[i]));
    };
    const int last = row + 15, lane = thread % 32;
    const auto from_last = [&](float to_high, float to_low) {
      return ptx::exp2((to_high - logs.step_high[last]) + (to_low - logs.step_low[last]));
    };
#pragma unroll
    for (int i = 0; i < 2; ++i) to_last[i] = decay_to(logs.step_high, logs.step_low, last, i);
    // Entries of near tiles may be infinite. They are not used.
    for (int t = lane; has_scores && t < padded_tokens; t += 32)
      logs.to_token[row / 16][t] = t < first_token ? 0.0F : from_last(logs.sums.high[t], logs.sums.low[t]);
    for (int r = lane; has_gram && r < steps; r += 32)
      logs.to_step[row / 16][r] =
          r < row ? 0.0F : sums.factors[r] * from_last(logs.step_high[r], logs.step_low[r]);
#pragma unroll
    for (int n = 0; n < near_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = min(8 * (first_near + n), steps - 8) + lane_column() + i % 2;
        near_tokens[n][i] =
            t < row_token[i / 2] ? 0.0F : scales[i / 2] * decay_to(logs.sums.high, logs.sums.low, t, i / 2);
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row + 8 * n + lane_column() + i % 2;
        near_steps[n][i] =
            r <= row + lane_row() + i / 2 * 8
                ? 0.0F
                : -row_factor[i / 2] * sums.factors[r] * decay_to(logs.step_high, logs.step_low, r, i / 2);
      }
    }
    __syncwarp();
  }
  Rows<token_tiles> key_query;
  Rows<step_tiles> key_key;
  key_query.set_zero();
  key_key.set_zero();
#pragma unroll
  for (int k = 0; k < padded_key; k += 64) {
    Left of_keys[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) of_keys[i] = keys.left(row, k + 16 * i);
    Products::fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (multiplies_scores)
        Products::template with_rows<padded_tokens, true>(key_query.tile, of_keys[i], queries, 0, k + 16 * i);
      if (multiplies_gram)
        Products::template with_rows<steps, true>(key_key.tile, of_keys[i], keys, 0, k + 16 * i);
    }
    Products::commit();
    Products::template wait<0>(key_query, key_key);
  }
  if (has_scores) {
    float column_logs[2 * token_tiles] = {};
#pragma unroll
    for (int j = 0; j < token_tiles; ++j) {
      const int t = 8 * j + lane_column();
      float weights[4];
      if constexpr (decays) {
        const float2 to = *reinterpret_cast<const float2*>(logs.to_token[row / 16] + t);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          weights[i] = scales[i / 2] * to_last[i / 2] * (i % 2 == 0 ? to.x : to.y);
#pragma unroll
          for (int n = 0; n < near_tiles; ++n) {
            if (j == first_near + n) weights[i] = near_tokens[n][i];
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) weights[i] = t + i % 2 >= row_token[i / 2] ? scales[i / 2] : 0.0F;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int to = t + i % 2;
        float& d = scores.tile[j][i];
        const float x = weights[i] * d;
        d = row_beta[i / 2] * x;
        of_beta[i / 2] += x * key_query.tile[j][i];
        if (decays && to > row_token[i / 2]) {
          const float log = d * key_query.tile[j][i];
          of_log[i / 2] += log;
          column_logs[2 * j + i % 2] += log;
        }
      }
    }
    if (decays) sum_columns<token_tiles>(column_logs, logs.token[row / 16]);
#pragma unroll
    for (int j = 0; j < token_tiles; j += 2)
      d_scores.store(Product::left(scores.tile[j], scores.tile[j + 1]), row, 8 * j);
  }
  if (has_gram) {
    float column_logs[2 * step_tiles] = {};
#pragma unroll
    for (int j = 0; j < step_tiles; ++j) {
      const int r = 8 * j + lane_column();
      float weights[4];
      if constexpr (decays) {
        const float2 to = *reinterpret_cast<const float2*>(logs.to_step[row / 16] + r);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          weights[i] = j / 2 == row / 16 ? near_steps[j % 2][i]
                                         : -row_factor[i / 2] * to_last[i / 2] * (i % 2 == 0 ? to.x : to.y);
      } else {
        const float2 factor = *reinterpret_cast<const float2*>(sums.factors + r);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          weights[i] = r + i % 2 > row + lane_row() + i / 2 * 8
                           ? -row_factor[i / 2] * (i % 2 == 0 ? factor.x : factor.y)
                           : 0.0F;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& d = gram.tile[j][i];
        const float x = weights[i] * d;
        d = row_beta[i / 2] * x;
        of_beta[i / 2] += x * key_key.tile[j][i];
        if (decays && r + i % 2 >= later_row[i / 2]) {
          const float log = d * key_key.tile[j][i];
          of_log[i / 2] += log;
          column_logs[2 * j + i % 2] += log;
        }
      }
    }
    if (decays) sum_columns<step_tiles>(column_logs, logs.step[row / 16]);
#pragma unroll
    for (int j = 0; j < step_tiles; j += 2)
      d_gram.store(Product::left(gram.tile[j], gram.tile[j + 1]), row, 8 * j);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row + lane_row() + 8 * i;
    const float beta = sum_over_lanes(of_beta[i], row_lanes),
                log = decays ? sum_over_lanes(of_log[i], row_lanes) : 0.0F;
    if (lane_column() == 0) sums.beta[part][r] = beta;
    if (decays && lane_column() == 0) logs.row[part][r] = log;
  }

  // 3. Products with the state before the chunk, for keys and for queries.
  Rows<column_tiles> by_state, d_query;
  by_state.set_zero();
  d_query.set_zero();
  // The gradient of the whole chunk's decay is the product of the state before it and the gradient of the
  // state after it. Of the products of 8 values with 8, those of a value with itself count. A warp has 16
  // values of a stage, and a share of the columns.
  float state_products[2][4] = {};
  using StateTile = typename Shape::StateTile;
  constexpr int share = padded_key / (threads / 64);
  static_assert(Shape::values == 32 && (!StateTile::has_panels || share == 64));
  const int first_of_share = StateTile::has_panels ? 0 : warp / 2 * share;
  const auto share_of = [&](const StateTile& tile) {
    if constexpr (StateTile::has_panels)
      return Tile<Product, 64>{tile.data + warp / 2 * StateTile::panel_size};
    else
      return tile;
  };
#pragma unroll 1
  for (int number = value_stages; number < 2 * value_stages; ++number) {
    wait(number, ring);
    const Stage s = stage(ring);
    if (decays) {
      const auto of_state = share_of(s.state), of_d_state = share_of(s.d_state);
      const int v = warp % 2 * 16;
#pragma unroll
      for (int k = 0; k < share; k += 16) {
        const Left state = of_state.left(v, first_of_share + k);
        typename Product::Right d_state[2];
        of_d_state.right_transposed(d_state, v, first_of_share + k);
#pragma unroll
        for (int j = 0; j < 2; ++j) Product::multiply(state_products[j], state, d_state[j]);
      }
    }
    Left of_d_error[2], of_output[2];
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      of_d_error[v] = s.d_errors(own_chunk).left_transposed(16 * v, chunk_row);
      of_output[v] = s.d_outputs.left(token_row, 16 * v);
    }
    Products::fence();
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      Products::template over_rows<columns, true>(by_state.tile, of_d_error[v], s.state, 16 * v, column);
      if (Products::by_warpgroup || has_tokens)
        Products::template over_rows<columns, true>(d_query.tile, of_output[v], s.state, 16 * v, column);
    }
    Products::commit();
    Products::template wait<0>(by_state, d_query);
    __syncthreads();
    load(number + Shape::stages, ring);
    ring = ring + 1 == Shape::stages ? 0 : ring + 1;
  }
  if (decays) {
    row_dots(by_state, keys, row, column, logs.start_dot[part]);
    if (has_tokens) row_dots(d_query, queries, row, column, logs.query_dot[part]);
    float state_dot = 0;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (lane_column() + c == lane_row()) state_dot += state_products[0][c] + state_products[1][2 + c];
    }
    state_dot = warp_sum(state_dot);
    if (thread % 32 == 0) logs.state_dot[warp] = state_dot;
  }
  const auto read = [&](int t) { return a.scale * (decays && t <= last_token ? logs.sums.up_to(t) : 1.0F); };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row + lane_row() + 8 * i;
    const float start = start_of(r), of_query = read(r);
#pragma unroll
    for (int j = 0; j < column_tiles; ++j) {
#pragma unroll
      for (int c = 2 * i; c < 2 * i + 2; ++c) {
        d_key.tile[j][c] -= start * by_state.tile[j][c];
        d_query.tile[j][c] *= of_query;
      }
    }
  }

  // 4. Products of the gradients of the scores and of the coupling.
  {
    Left of_scores[steps / 16], of_tokens[padded_tokens / 16];
#pragma unroll
    for (int s = 0; s < steps; s += 16) of_scores[s / 16] = d_scores.left_transposed(s, token_row);
#pragma unroll
    for (int t = 0; t < padded_tokens; t += 16) of_tokens[t / 16] = d_scores.left(row, t);
    Products::fence();
#pragma unroll
    for (int s = 0; s < steps; s += 16) {
      if (Products::by_warpgroup || has_tokens)
        Products::template over_rows<columns, true>(d_query.tile, of_scores[s / 16], keys, s, column);
    }
#pragma unroll
    for (int t = 0; t < padded_tokens; t += 16)
      Products::template over_rows<columns, true>(d_key.tile, of_tokens[t / 16], queries, t, column);
    Products::commit();
    Products::template wait<0>(d_key, d_query);
    Left of_gram[steps / 16], of_transposed[steps / 16];
#pragma unroll
    for (int s = 0; s < steps; s += 16) {
      of_gram[s / 16] = d_gram.left(row, s);
      of_transposed[s / 16] = d_gram.left_transposed(s, row);
    }
    Products::fence();
#pragma unroll
    for (int s = 0; s < steps; s += 16) {
      // G is below its diagonal, and G^T is here.
      if (Products::by_warpgroup || s >= row)
        Products::template over_rows<columns, true>(d_key.tile, of_gram[s / 16], keys, s, column);
      if (Products::by_warpgroup || s <= row)
        Products::template over_rows<columns, true>(d_key.tile, of_transposed[s / 16], keys, s, column);
    }
    Products::commit();
    Products::template wait<0>(d_key);
  }
  if (a.unit_keys) {
    row_dots(d_key, keys, row, column, sums.key_dot[part]);
    __syncthreads();
    float dots[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = row + lane_row() + 8 * i;
      for (int p = 0; p < Shape::parts; ++p) dots[i] += sums.key_dot[p][r];
      dots[i] *= sums.factors[r] * sums.factors[r];
    }
#pragma unroll
    for (int k = 0; k < columns; k += 16) {
      float y[2][4];
      Product::unpack(keys.left(row, column + k), y[0], y[1]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) d_key.tile[k / 8 + j][i] -= dots[i / 2] * y[j][i];
      }
    }
  }
  const Tile<Product, columns> leaving{stage(0).state.data + warp * 16 * columns};
  const ChunkPlace own_place = group.chunk(own_chunk);
  store_gradients<Product>(d_key, leaving, step_rows(gradients.d_keys, a.sizes.key, a.sizes, own_place),
                           chunk_row, own_place.steps, column, a.sizes.key, a.aligned_gradients);
  if (has_tokens)
    store_gradients<Product>(d_query, leaving, token_rows(gradients.d_queries, a.sizes.key, a.sizes, place),
                             row, place.tokens, column, a.sizes.key, a.aligned_gradients);

  // Sums: step sizes, and decays.
  __syncthreads();
  const int r = thread;
  float of_end = 0;
  if (r < steps) {
    float d_beta = 0;
    for (int p = 0; p < Shape::parts; ++p) {
      of_end += sums.end_dot[p][r];
      d_beta += sums.beta[p][r];
    }
    of_end *= end_of(r);
    const ChunkPlace chunk = group.chunk(r / chunk_rows);
    if (r % chunk_rows < chunk.steps)
      *step_rows(gradients.d_betas, 1, a.sizes, chunk)[r % chunk_rows] = d_beta + of_end;
  }
  if constexpr (!decays) return;
  // With respect to the logarithm g of each micro-step, then of each token, then of each token and those
  // after it.
  if (r < steps) {
    of_end *= sums.betas[r];
    float log = -of_end;
    for (int p = 0; p < Shape::parts; ++p) log -= start_of(r) * logs.start_dot[p][r] + logs.row[p][r];
    for (int i = 0; i < Shape::rows; ++i) log += logs.step[i][r];
    logs.step_sums[r] = log;
    logs.step_high[r] = of_end;  // nothing else is read there any more
  }
  __syncthreads();
  if (r < steps) {
    float sum = 0;
    if (r < place.tokens) {
      const int first = group.row_of(r);
      for (int i = first; i < first + factors; ++i) sum += logs.step_sums[i];
      for (int i = 0; i < Shape::rows; ++i) sum += logs.token[i][r];
      for (int p = 0; p < Shape::parts; ++p) sum += read(r) * logs.query_dot[p][r];
    }
    logs.token_sums[r] = sum;
  }
  __syncthreads();
  if (warp > 0) return;
  // A lane has `count` tokens, one after another, and all that the whole chunk's decay has part in.
  constexpr int count = steps / 32;
  float whole = 0, own[count], after = 0;
  for (int i = thread; i < threads / 32; i += 32) whole += logs.state_dot[i];
  whole *= logs.sums.up_to(last_token);
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
    const int t = thread * count + i;
    if (t < place.tokens) *token_rows(gradients.d_log_decays, 1, a.sizes, place)[t] = own[i] + later;
  }
}

}  // namespace orthornn::cuda
