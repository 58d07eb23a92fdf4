#pragma once
// Second kernel of the backward of the chunked delta product: the gradients of all inputs but the values, for
// all chunks at once.
//
// A block has one head of one chunk; with bfloat16 and K > 128 of two, which it takes as one chunk (below C
// is the rows of both). The formulas do not depend on where chunks begin, and a state is read for two chunks
// then. A warp has 16 rows of the results, the steps or tokens from 16 m on, and 64 or 128 of the K
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

#include "cuda/delta/gather_scores.cuh"
#include "cuda/delta/gather_stages.cuh"
#include "cuda/delta/gather_sums.cuh"

namespace orthornn::cuda {

/// Starts loading keys and queries.
template <class Shape>
__device__ __forceinline__ void load_keys_and_queries(const GatherThread<Shape>& t) {
  const auto& a = t.a;
#pragma unroll
  for (int i = 0; i < Shape::chunks; ++i) {
    const ChunkPlace chunk = t.group.chunk(i);
    const auto rows = step_rows(a.keys, a.sizes.key, a.sizes, chunk);
    RowCopies<Shape::threads, Shape::chunk_rows, typename Shape::KeyTile>(t.thread, rows, a.sizes.key, 0,
                                                                          a.aligned_keys)
        .start({t.keys.data + i * Shape::chunk_rows * Shape::KeyTile::row_size}, rows, chunk.steps);
  }
  const auto query_rows = token_rows(a.queries, a.sizes.key, a.sizes, t.place);
  RowCopies<Shape::threads, Shape::padded_tokens, typename Shape::QueryTile>(t.thread, query_rows,
                                                                             a.sizes.key, 0, a.aligned_keys)
      .start(t.queries, query_rows, t.place.tokens);
  ptx::cp_async_commit();
}

/// Puts the inputs of all steps and the sums of the decays where all threads read them, and waits for keys
/// and queries.
template <class Shape>
__device__ __forceinline__ void share_step_inputs(const GatherThread<Shape>& t, float own_beta,
                                                  float own_factor, float own_log) {
  auto& logs = t.logs;
  if (t.thread < Shape::steps) {
    t.sums.betas[t.thread] = own_beta;
    t.sums.factors[t.thread] = own_factor;
  }
  if (Shape::decays) logs.sums.compute(own_log);
  ptx::cp_async_wait<0>();
  ptx::fence_proxy_async();
  __syncthreads();
  if (Shape::decays && t.thread < Shape::steps) {
    const int token = t.group.token_of(t.thread);
    logs.step_high[t.thread] = logs.sums.high[token];
    logs.step_low[t.thread] = logs.sums.low[token];
  }
}

/// Step 1: dS err, X^T and M^T.
template <class Shape, int column_tiles>
__device__ __forceinline__ void multiply_errors(const GatherThread<Shape>& t,
                                                const GatherStages<Shape>& stages, int& ring,
                                                Rows<column_tiles>& d_key,
                                                Rows<Shape::padded_tokens / 8>& scores,
                                                Rows<Shape::steps / 8>& gram) {
  using Products = typename GatherThread<Shape>::Products;
  d_key.set_zero();
  scores.set_zero();
  gram.set_zero();
  stages.for_each(0, ring, [&](const auto& s) {
    typename Shape::Product::Left of_error[2];
#pragma unroll
    for (int v = 0; v < 2; ++v) of_error[v] = s.errors(t.own_chunk).left_transposed(16 * v, t.chunk_row);
    Products::fence();
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      Products::template over_rows<Shape::columns, true>(d_key.tile, of_error[v], s.state, 16 * v, t.column);
      if (t.multiplies_scores)
        Products::template with_rows<Shape::padded_tokens, true>(scores.tile, of_error[v], s.d_outputs, 0,
                                                                 16 * v);
      if (t.multiplies_gram) {
#pragma unroll
        for (int i = 0; i < Shape::chunks; ++i)
          Products::template over_rows<Shape::chunk_rows, true>(gram.tile + i * Shape::chunk_rows / 8,
                                                                of_error[v], s.d_errors(i), 16 * v, 0);
      }
    }
    Products::commit();
    Products::template wait<0>(d_key, scores, gram);
  });
}

/// Adds products of the values of a stage in the state before the chunk with those in the gradient of the
/// state after it, whose sum is the gradient of the whole chunk's decay. Of the products of 8 values with 8,
/// those of a value with itself count. A warp has 16 values, and a share of the columns.
template <class Shape, class Stage>
__device__ __forceinline__ void add_state_products(int warp, const Stage& s, float (&products)[2][4]) {
  using Product = typename Shape::Product;
  using StateTile = typename Shape::StateTile;
  constexpr int share = Shape::padded_key / (Shape::threads / 64);
  static_assert(Shape::values == 32 && (!StateTile::has_panels || share == 64));
  const int first_of_share = StateTile::has_panels ? 0 : warp / 2 * share;
  const auto share_of = [&](const StateTile& tile) {
    if constexpr (StateTile::has_panels)
      return Tile<Product, 64>{tile.data + warp / 2 * StateTile::panel_size};
    else
      return tile;
  };
  const auto of_state = share_of(s.state), of_d_state = share_of(s.d_state);
  const int v = warp % 2 * 16;
#pragma unroll
  for (int k = 0; k < share; k += 16) {
    const typename Product::Left state = of_state.left(v, first_of_share + k);
    typename Product::Right d_state[2];
    of_d_state.right_transposed(d_state, v, first_of_share + k);
#pragma unroll
    for (int j = 0; j < 2; ++j) Product::multiply(products[j], state, d_state[j]);
  }
}

/// Step 3: products with the state before the chunk, for keys and for queries. d_query is all of it.
template <class Shape, int column_tiles>
__device__ __forceinline__ void multiply_states(const GatherThread<Shape>& t,
                                                const GatherStages<Shape>& stages, int& ring,
                                                Rows<column_tiles>& d_key, Rows<column_tiles>& d_query) {
  using Products = typename GatherThread<Shape>::Products;
  Rows<column_tiles> by_state;
  by_state.set_zero();
  d_query.set_zero();
  float state_products[2][4] = {};
  stages.for_each(stages.value_stages, ring, [&](const auto& s) {
    if (Shape::decays) add_state_products<Shape>(t.warp, s, state_products);
    typename Shape::Product::Left of_d_error[2], of_output[2];
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      of_d_error[v] = s.d_errors(t.own_chunk).left_transposed(16 * v, t.chunk_row);
      of_output[v] = s.d_outputs.left(t.token_row, 16 * v);
    }
    Products::fence();
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      Products::template over_rows<Shape::columns, true>(by_state.tile, of_d_error[v], s.state, 16 * v,
                                                         t.column);
      if (Products::by_warpgroup || t.has_tokens)
        Products::template over_rows<Shape::columns, true>(d_query.tile, of_output[v], s.state, 16 * v,
                                                           t.column);
    }
    Products::commit();
    Products::template wait<0>(by_state, d_query);
  });
  if (Shape::decays) {
    auto& logs = t.logs;
    row_dots(by_state, t.keys, t.row, t.column, logs.start_dot[t.part]);
    if (t.has_tokens) row_dots(d_query, t.queries, t.row, t.column, logs.query_dot[t.part]);
    float state_dot = 0;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (lane_column() + c == lane_row()) state_dot += state_products[0][c] + state_products[1][2 + c];
    }
    state_dot = warp_sum(state_dot);
    if (t.thread % 32 == 0) logs.state_dot[t.warp] = state_dot;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = t.row + lane_row() + 8 * i;
    const float start = t.start_of(r), of_query = t.read_of(r);
#pragma unroll
    for (int j = 0; j < column_tiles; ++j) {
#pragma unroll
      for (int c = 2 * i; c < 2 * i + 2; ++c) {
        d_key.tile[j][c] -= start * by_state.tile[j][c];
        d_query.tile[j][c] *= of_query;
      }
    }
  }
}

/// Step 4: products of the gradients of the scores and of the coupling.
template <class Shape, int column_tiles>
__device__ __forceinline__ void multiply_scores(const GatherThread<Shape>& t, Rows<column_tiles>& d_key,
                                                Rows<column_tiles>& d_query) {
  using Products = typename GatherThread<Shape>::Products;
  using Left = typename Shape::Product::Left;
  constexpr int steps = Shape::steps, padded_tokens = Shape::padded_tokens, columns = Shape::columns;
  const int row = t.row, column = t.column;
  Left of_scores[steps / 16], of_tokens[padded_tokens / 16];
#pragma unroll
  for (int s = 0; s < steps; s += 16) of_scores[s / 16] = t.d_scores.left_transposed(s, t.token_row);
#pragma unroll
  for (int s = 0; s < padded_tokens; s += 16) of_tokens[s / 16] = t.d_scores.left(row, s);
  Products::fence();
#pragma unroll
  for (int s = 0; s < steps; s += 16) {
    if (Products::by_warpgroup || t.has_tokens)
      Products::template over_rows<columns, true>(d_query.tile, of_scores[s / 16], t.keys, s, column);
  }
#pragma unroll
  for (int s = 0; s < padded_tokens; s += 16)
    Products::template over_rows<columns, true>(d_key.tile, of_tokens[s / 16], t.queries, s, column);
  Products::commit();
  Products::template wait<0>(d_key, d_query);
  Left of_gram[steps / 16], of_transposed[steps / 16];
#pragma unroll
  for (int s = 0; s < steps; s += 16) {
    of_gram[s / 16] = t.d_gram.left(row, s);
    of_transposed[s / 16] = t.d_gram.left_transposed(s, row);
  }
  Products::fence();
#pragma unroll
  for (int s = 0; s < steps; s += 16) {
    // G is below its diagonal, and G^T is here.
    if (Products::by_warpgroup || s >= row)
      Products::template over_rows<columns, true>(d_key.tile, of_gram[s / 16], t.keys, s, column);
    if (Products::by_warpgroup || s <= row)
      Products::template over_rows<columns, true>(d_key.tile, of_transposed[s / 16], t.keys, s, column);
  }
  Products::commit();
  Products::template wait<0>(d_key);
}

/// d_key through the norms of the keys.
template <class Shape, int column_tiles>
__device__ __forceinline__ void through_norms(const GatherThread<Shape>& t, Rows<column_tiles>& d_key) {
  auto& sums = t.sums;
  row_dots(d_key, t.keys, t.row, t.column, sums.key_dot[t.part]);
  __syncthreads();
  float dots[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = t.row + lane_row() + 8 * i;
    for (int p = 0; p < Shape::parts; ++p) dots[i] += sums.key_dot[p][r];
    dots[i] *= sums.factors[r] * sums.factors[r];
  }
#pragma unroll
  for (int k = 0; k < Shape::columns; k += 16) {
    float y[2][4];
    Shape::Product::unpack(t.keys.left(t.row, t.column + k), y[0], y[1]);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) d_key.tile[k / 8 + j][i] -= dots[i / 2] * y[j][i];
    }
  }
}

/// Writes the warp's rows of the gradients of keys and queries.
template <class Shape, int column_tiles>
__device__ __forceinline__ void store_rows_of_keys(const GatherThread<Shape>& t,
                                                   const GatherStages<Shape>& stages,
                                                   const Rows<column_tiles>& d_key,
                                                   const Rows<column_tiles>& d_query) {
  using Product = typename Shape::Product;
  const auto& a = t.a;
  const Tile<Product, Shape::columns> leaving{stages.stage(0).state.data + t.warp * 16 * Shape::columns};
  const ChunkPlace own_place = t.group.chunk(t.own_chunk);
  store_gradients<Product>(d_key, leaving, step_rows(t.gradients.d_keys, a.sizes.key, a.sizes, own_place),
                           t.chunk_row, own_place.steps, t.column, a.sizes.key, a.aligned_gradients);
  if (t.has_tokens)
    store_gradients<Product>(d_query, leaving,
                             token_rows(t.gradients.d_queries, a.sizes.key, a.sizes, t.place), t.row,
                             t.place.tokens, t.column, a.sizes.key, a.aligned_gradients);
}

template <class Product, int padded_key, int padded_tokens, bool decays>
__global__ __launch_bounds__(
    Gather<Product, padded_key, padded_tokens, decays>::threads,
    Gather<Product, padded_key, padded_tokens,
           decays>::blocks) void gather_gradients(ChunkedArguments<typename Product::Element> a,
                                                  ChunkedGradients<typename Product::Element> gradients) {
  using Shape = Gather<Product, padded_key, padded_tokens, decays>;
  constexpr int steps = Shape::steps, chunks = Shape::chunks, column_tiles = Shape::columns / 8;
  const TokenSequence sequence = sequence_of(a.sizes.sequences, blockIdx.z);
  const Index chunk_number = static_cast<Index>(chunks) * blockIdx.x;
  if (chunk_number * a.sizes.tokens >= sequence.count) return;
  const int head = static_cast<int>(blockIdx.y);
  const Index first = first_chunk(a.sizes, sequence, blockIdx.z);
  const typename Shape::Group group(a.sizes, sequence, first, chunk_number, head);
  const Index state_slot = group_slot<chunks>(a.sizes, first, blockIdx.z, chunk_number, head);

  // These come while addresses of the rest are computed.
  const int thread = static_cast<int>(threadIdx.x);
  float own_beta = 0, own_factor = 0, own_log = 0;
  if (thread < steps) {
    using Scales = ChunkScales<Shape::chunk_rows>;
    const ChunkPlace chunk = group.chunk(thread / Shape::chunk_rows);
    const int r = thread % Shape::chunk_rows;
    if (r < chunk.steps) {
      own_beta = *step_rows(a.betas, 1, a.sizes, chunk)[r];
      own_factor = a.scales[chunk.slot * Scales::count + Scales::factor + r];
    }
    if (decays) own_log = log_decay(a, group.all(), thread);
  }
  const GatherThread<Shape> t{a, gradients, group, tile_memory()};
  const GatherStages<Shape> stages{t, state_slot};
  stages.initialize_barriers();
  load_keys_and_queries(t);
  stages.clear_missing_chunk();
  __syncthreads();  // the barriers are initialized
  stages.load_first();
  share_step_inputs(t, own_beta, own_factor, own_log);

  Rows<column_tiles> d_key, d_query;
  int ring = 0;
  {
    Rows<padded_tokens / 8> scores;
    Rows<steps / 8> gram;
    multiply_errors(t, stages, ring, d_key, scores, gram);
    gather_scores(t, d_key, scores, gram);
  }
  multiply_states(t, stages, ring, d_key, d_query);
  multiply_scores(t, d_key, d_query);
  if (a.unit_keys) through_norms(t, d_key);
  store_rows_of_keys(t, stages, d_key, d_query);
  __syncthreads();
  const float of_end = store_step_sizes(t);
  if constexpr (!decays) return;
  sum_log_decays(t, of_end);
  if (t.warp == 0) store_log_decays(t);
}

}  // namespace orthornn::cuda
