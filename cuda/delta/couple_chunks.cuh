#pragma once
// First kernel of the chunked delta product: everything of a chunk that needs no state, for all chunks at
// once.
//
// A block has one head of one chunk, and a warp 16 of its C factors, which are steps here. With g_t the sum
// of the logarithms of the decays up to token t and f_r what makes key r have norm 1:
//
//   1. Keys and queries to shared memory, and g
//   2. K K^T and K Q^T: by a warpgroup (row_products.cuh), or the lower blocks by each warp; f from the
//      diagonal of K K^T. So with tf32 it makes the rounded keys unit vectors, which are those of the
//      products.
//   3. A_rs = beta_s e^(g_r - g_s) f_r f_s k_r.k_s for s < r
//   4. (I + A)^-1 in float (triangular_inverse.cuh)
//   5. scores P_ts = scale beta_s e^(g_t - g_s) f_s q_t.k_s for the steps s up to token t
//
// Shared memory: keys [C, K] and queries [tokens, K], of which images of the inverse and the scores take the
// place; A [C, C] in float; g.

#include "cuda/delta/chunked_arguments.cuh"
#include "cuda/delta/decay_sums.cuh"
#include "cuda/delta/row_products.cuh"
#include "cuda/delta/triangular_inverse.cuh"

namespace orthornn::cuda {

template <class Product, int padded_key, int padded_tokens>
struct Coupling {
  static constexpr int steps = chunk_steps<Product, padded_key>;
  static constexpr int threads = 2 * steps;
  using Products = RowProducts<Product, steps == 64>;
  using KeyTile = Tile<Product, padded_key, steps>;
  using QueryTile = Tile<Product, padded_key, padded_tokens>;
  using StepTile = Tile<Product, steps>;

  struct alignas(16) Numbers {
    /// What makes a key have norm 1, and beta times this.
    float factors[steps], weights[steps];
    DecaySums<steps> decays;
    /// Of the tokens of the steps.
    float step_high[steps], step_low[steps];
  };
  // Tiles begin at multiples of 1024 bytes.
  static constexpr std::size_t tile_bytes = KeyTile::bytes(steps) + QueryTile::bytes(padded_tokens);
  static_assert(StepTile::bytes(steps + padded_tokens) <= tile_bytes);
  static constexpr std::size_t shared = 1024 + tile_bytes + FloatSquare<steps>::bytes + sizeof(Numbers);
};

/// 16 rows from `row` on of `left` times the rows of `right` below `end`, transposed.
template <class Product, int padded_key, int left_panel, int right_panel, int step_tiles>
__device__ __forceinline__ void inner_products(Rows<step_tiles>& product,
                                               const Tile<Product, padded_key, left_panel>& left,
                                               const Tile<Product, padded_key, right_panel>& right, int row,
                                               int end) {
  product.set_zero();
#pragma unroll 1
  for (int k = 0; k < padded_key; k += 16) {
    const auto x = left.left(row, k);
#pragma unroll
    for (int n = 0; n < 8 * step_tiles; n += 16) {
      if (n >= end) continue;
      typename Product::Right y[2];
      right.right_transposed(y, n, k);
      Product::multiply(product.tile[n / 8], x, y[0]);
      Product::multiply(product.tile[n / 8 + 1], x, y[1]);
    }
  }
}

/// Calls body(r, x) for the numbers x of rows r that are on the diagonal of a square matrix, of which a warp
/// has the 16 rows from `row` on.
template <int tiles, class Body>
__device__ __forceinline__ void each_on_diagonal(const Rows<tiles>& rows, int row, const Body& body) {
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
    if (j / 2 != row / 16) continue;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (lane_column() + c == lane_row()) body(8 * j + lane_row(), rows.tile[j][j % 2 * 2 + c]);
    }
  }
}

template <class Product, int padded_key, int padded_tokens>
__global__ __launch_bounds__(2 * chunk_steps<Product, padded_key>) void couple_chunks(
    ChunkedArguments<typename Product::Element> a) {
  using Shape = Coupling<Product, padded_key, padded_tokens>;
  using E = typename Product::Element;
  constexpr int steps = Shape::steps, threads = Shape::threads, step_tiles = steps / 8,
                token_tiles = padded_tokens / 8;
  const TokenSequence sequence = sequence_of(a.sizes.sequences, blockIdx.z);
  if (blockIdx.x * static_cast<Index>(a.sizes.tokens) >= sequence.count) return;
  const ChunkPlace place(a.sizes, sequence, first_chunk(a.sizes, sequence, blockIdx.z), blockIdx.x,
                         static_cast<int>(blockIdx.y));

  // These come while addresses of the rest are computed.
  const int thread = static_cast<int>(threadIdx.x);
  const bool decays = a.log_decays != nullptr;
  float own_beta = 0, own_log = 0;
  if (thread < steps) {
    if (thread < place.steps) own_beta = *step_rows(a.betas, 1, a.sizes, place)[thread];
    if (decays) own_log = log_decay(a, place, thread);
  }

  unsigned char* const memory = tile_memory();
  const typename Shape::KeyTile keys{reinterpret_cast<E*>(memory)};
  const typename Shape::QueryTile queries{keys.data + steps * padded_key};
  const FloatSquare<steps> coupling{reinterpret_cast<float*>(memory + Shape::tile_bytes)};
  auto& numbers = *reinterpret_cast<typename Shape::Numbers*>(memory + Shape::tile_bytes + coupling.bytes);

  // 1. Inputs.
  const int warp = thread / 32, row = 16 * warp;
  const auto key_rows = step_rows(a.keys, a.sizes.key, a.sizes, place);
  const auto query_rows = token_rows(a.queries, a.sizes.key, a.sizes, place);
  RowCopies<threads, steps, typename Shape::KeyTile>(thread, key_rows, a.sizes.key, 0, a.aligned_keys)
      .start(keys, key_rows, place.steps);
  RowCopies<threads, padded_tokens, typename Shape::QueryTile>(thread, query_rows, a.sizes.key, 0,
                                                               a.aligned_keys)
      .start(queries, query_rows, place.tokens);
  ptx::cp_async_commit();
  const auto token_of = [&](int r) { return min(a.sizes.token_of(r), a.sizes.tokens - 1); };
  if (thread < steps) {
    numbers.weights[thread] = own_beta;
    numbers.factors[thread] = 1;
  }
  if (decays) {
    numbers.decays.compute(own_log);
    __syncthreads();
    if (thread < steps) {
      const int t = token_of(thread);
      numbers.step_high[thread] = numbers.decays.high[t];
      numbers.step_low[thread] = numbers.decays.low[t];
    }
  }
  ptx::cp_async_wait<0>();
  ptx::fence_proxy_async();
  __syncthreads();

  // 2. Products of keys with keys and with queries.
  Rows<step_tiles> gram;
  Rows<token_tiles> reads;
  using Products = typename Shape::Products;
  if constexpr (Products::by_warpgroup) {
    typename Product::Left rows[padded_key / 16];
#pragma unroll
    for (int k = 0; k < padded_key; k += 16) rows[k / 16] = keys.left(row, k);
    Products::fence();
#pragma unroll
    for (int k = 0; k < padded_key; k += 16) {
      if (k == 0) {
        Products::template with_rows<steps, false>(gram.tile, rows[0], keys, 0, 0);
        Products::template with_rows<padded_tokens, false>(reads.tile, rows[0], queries, 0, 0);
      } else {
        Products::template with_rows<steps, true>(gram.tile, rows[k / 16], keys, 0, k);
        Products::template with_rows<padded_tokens, true>(reads.tile, rows[k / 16], queries, 0, k);
      }
    }
    Products::commit();
    Products::template wait<0>(gram, reads);
  } else {
    inner_products(gram, keys, keys, row, row + 16);
    inner_products(reads, keys, queries, row, padded_tokens);
  }
  if (a.unit_keys) {
    each_on_diagonal(gram, row, [&](int r, float squares) {
      const float factor = squares > 0 ? 1 / sqrtf(squares) : 0.0F;
      numbers.factors[r] = factor;
      numbers.weights[r] *= factor;
    });
  }
  __syncthreads();  // images take the place of keys and queries

  // 3. A. What is above the diagonal is not read.
  const float* const weights = numbers.weights;
  float row_factor[2], row_weight[2], high[2], low[2];
  int row_token[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row + lane_row() + 8 * i;
    row_factor[i] = numbers.factors[r];
    row_weight[i] = a.scale * weights[r];
    row_token[i] = token_of(r);
    if (decays) high[i] = numbers.step_high[r], low[i] = numbers.step_low[r];
  }
#pragma unroll
  for (int n = 0; n < steps; n += 16) {
    if (n > row) continue;
#pragma unroll
    for (int j = n / 8; j < n / 8 + 2; ++j) {
      const int s = 8 * j + lane_column();
      const float2 weight = *reinterpret_cast<const float2*>(weights + s);
      float(&x)[4] = gram.tile[j];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] *= row_factor[i / 2] * (i % 2 == 0 ? weight.x : weight.y);
      if (decays) {
        const float2 from_high = *reinterpret_cast<const float2*>(numbers.step_high + s),
                     from_low = *reinterpret_cast<const float2*>(numbers.step_low + s);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          x[i] *= ptx::exp2((high[i / 2] - (i % 2 == 0 ? from_high.x : from_high.y)) +
                            (low[i / 2] - (i % 2 == 0 ? from_low.x : from_low.y)));
      }
      if (n == row) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (s + i % 2 >= row + lane_row() + i / 2 * 8) x[i] = 0;
        }
      }
    }
    coupling.store(gram.tile[n / 8], gram.tile[n / 8 + 1], row, n);
  }
  using Scales = ChunkScales<steps>;
  float* const scales = a.scales + place.slot * Scales::count;
  if (thread < steps) {
    const int r = thread, t = token_of(r), last = a.sizes.tokens - 1;
    scales[Scales::start + r] = numbers.factors[r] * (decays ? numbers.decays.up_to(t) : 1.0F);
    scales[Scales::end + r] = weights[r] * (decays ? numbers.decays.between(t, last) : 1.0F);
    scales[Scales::read + r] = a.scale * (decays && r <= last ? numbers.decays.up_to(r) : 1.0F);
    scales[Scales::factor + r] = numbers.factors[r];
    if (r == 0) scales[Scales::whole] = decays ? numbers.decays.up_to(last) : 1.0F;
  }
  // 4. The inverse.
  __syncwarp();  // a warp's block on the diagonal is its own
  invert_diagonal_block(coupling, row);
  // 5. Scores. Queries that are missing are 0, and so are their products.
#pragma unroll
  for (int j = 0; j < token_tiles; ++j) {
    const int t = 8 * j + lane_column();
    float(&x)[4] = reads.tile[j];
    float2 to_high, to_low;
    if (decays) {
      to_high = *reinterpret_cast<const float2*>(numbers.decays.high + t);
      to_low = *reinterpret_cast<const float2*>(numbers.decays.low + t);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // The decay to an earlier token may be infinite.
      const float decay = decays ? ptx::exp2(((i % 2 == 0 ? to_high.x : to_high.y) - high[i / 2]) +
                                             ((i % 2 == 0 ? to_low.x : to_low.y) - low[i / 2]))
                                 : 1.0F;
      x[i] = t + i % 2 >= row_token[i / 2] ? x[i] * row_weight[i / 2] * decay : 0.0F;
    }
  }
  E* const score_image = a.scores + place.slot * padded_tokens * steps;
  E* const inverse_image = a.inverse + place.slot * steps * steps;
  const typename Shape::StepTile scores{Shape::StepTile::packed ? keys.data : score_image},
      inverse{Shape::StepTile::packed ? keys.data + padded_tokens * steps : inverse_image};
  if constexpr (Shape::StepTile::packed) {
    const int lane = thread % 32;
#pragma unroll
    for (int j = 0; j < token_tiles; j += 2)
      ptx::store_matrices_transposed(
          Product::left(reads.tile[j], reads.tile[j + 1]).part,
          scores.at_vector(8 * j + lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2));
  } else {
#pragma unroll
    for (int j = 0; j < token_tiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scores.at(8 * j + lane_column() + i % 2, row + lane_row() + i / 2 * 8) = reads.tile[j][i];
    }
  }
  __syncthreads();
  join_blocks<16>(coupling);
  if constexpr (steps == 64) join_blocks<32>(coupling);
#pragma unroll
  for (int n = 0; n < steps; n += 16) {
    Rows<2> x;
    x.set_zero();
    if (n <= row) FloatProduct<true>::unpack(coupling.left(row, n), x.tile[0], x.tile[1]);
    inverse.store(Product::left(x.tile[0], x.tile[1]), row, n);
  }
  if constexpr (Shape::StepTile::packed) {
    ptx::fence_proxy_async();
    __syncthreads();
    if (thread > 0) return;
    ptx::copy_bulk_to_global(score_image, scores.data, static_cast<unsigned>(scores.bytes(padded_tokens)));
    ptx::copy_bulk_to_global(inverse_image, inverse.data, static_cast<unsigned>(inverse.bytes(steps)));
    ptx::copy_bulk_wait_read();
  }
}

}  // namespace orthornn::cuda
