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

template <class P, int key, int tokens>
struct Coupling {
  using Product = P;
  using E = typename Product::Element;
  static constexpr int padded_key = key, padded_tokens = tokens;
  static constexpr int steps = chunk_steps<Product, padded_key>;
  static constexpr int threads = 2 * steps;
  using Products = RowProducts<Product, steps == 64>;
  using KeyTile = Tile<Product, padded_key, steps>;
  using QueryTile = Tile<Product, padded_key, padded_tokens>;
  using StepTile = Tile<Product, steps>;
  /// Of a warp: its 16 rows of K K^T, then of A; and of K Q^T, then of P^T.
  using Gram = Rows<steps / 8>;
  using Reads = Rows<padded_tokens / 8>;

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

/// What a thread reads, and the rows of its warp.
template <class Shape>
struct CoupleThread {
  using E = typename Shape::E;

  const ChunkedArguments<E>& a;
  const ChunkPlace& place;
  unsigned char* memory = tile_memory();

  typename Shape::KeyTile keys{reinterpret_cast<E*>(memory)};
  typename Shape::QueryTile queries{keys.data + Shape::steps * Shape::padded_key};
  /// A, then the inverse.
  FloatSquare<Shape::steps> coupling{reinterpret_cast<float*>(memory + Shape::tile_bytes)};
  typename Shape::Numbers& numbers =
      *reinterpret_cast<typename Shape::Numbers*>(memory + Shape::tile_bytes + coupling.bytes);
  /// In global memory.
  E* score_image = a.scores + place.slot * Shape::padded_tokens * Shape::steps;
  E* inverse_image = a.inverse + place.slot * Shape::steps * Shape::steps;
  /// The images of bfloat16 are made in shared memory, those of floats where they stay.
  typename Shape::StepTile scores{Shape::StepTile::packed ? keys.data : score_image};
  typename Shape::StepTile inverse{Shape::StepTile::packed ? keys.data + Shape::padded_tokens * Shape::steps
                                                           : inverse_image};

  int thread = static_cast<int>(threadIdx.x);
  /// The first row of the warp.
  int row = thread / 32 * 16;
  bool decays = a.log_decays != nullptr;

  __device__ __forceinline__ int token_of(int r) const {
    return min(a.sizes.token_of(r), a.sizes.tokens - 1);
  }
};

/// Of step `thread`, and the logarithm of the decay of token `thread`.
struct StepInputs {
  float beta = 0, log = 0;
};

template <class Shape>
__device__ __forceinline__ StepInputs load_step_inputs(const CoupleThread<Shape>& t) {
  StepInputs own;
  if (t.thread < Shape::steps) {
    if (t.thread < t.place.steps) own.beta = *step_rows(t.a.betas, 1, t.a.sizes, t.place)[t.thread];
    if (t.decays) own.log = log_decay(t.a, t.place, t.thread);
  }
  return own;
}

/// Starts loading keys and queries.
template <class Shape>
__device__ __forceinline__ void load_keys_and_queries(const CoupleThread<Shape>& t) {
  const auto& a = t.a;
  const auto key_rows = step_rows(a.keys, a.sizes.key, a.sizes, t.place);
  const auto query_rows = token_rows(a.queries, a.sizes.key, a.sizes, t.place);
  RowCopies<Shape::threads, Shape::steps, typename Shape::KeyTile>(t.thread, key_rows, a.sizes.key, 0,
                                                                   a.aligned_keys)
      .start(t.keys, key_rows, t.place.steps);
  RowCopies<Shape::threads, Shape::padded_tokens, typename Shape::QueryTile>(t.thread, query_rows,
                                                                             a.sizes.key, 0, a.aligned_keys)
      .start(t.queries, query_rows, t.place.tokens);
  ptx::cp_async_commit();
}

/// Puts the inputs of all steps and the sums of the decays where all threads read them.
template <class Shape>
__device__ __forceinline__ void share_step_inputs(const CoupleThread<Shape>& t, const StepInputs& own) {
  auto& numbers = t.numbers;
  if (t.thread < Shape::steps) {
    numbers.weights[t.thread] = own.beta;
    numbers.factors[t.thread] = 1;
  }
  if (t.decays) {
    numbers.decays.compute(own.log);
    __syncthreads();
    if (t.thread < Shape::steps) {
      const int token = t.token_of(t.thread);
      numbers.step_high[t.thread] = numbers.decays.high[token];
      numbers.step_low[t.thread] = numbers.decays.low[token];
    }
  }
}

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

/// Step 2: products of keys with keys and with queries.
template <class Shape>
__device__ __forceinline__ void multiply_keys(const CoupleThread<Shape>& t, typename Shape::Gram& gram,
                                              typename Shape::Reads& reads) {
  using Products = typename Shape::Products;
  constexpr int steps = Shape::steps, padded_key = Shape::padded_key, padded_tokens = Shape::padded_tokens;
  if constexpr (Products::by_warpgroup) {
    typename Shape::Product::Left rows[padded_key / 16];
#pragma unroll
    for (int k = 0; k < padded_key; k += 16) rows[k / 16] = t.keys.left(t.row, k);
    Products::fence();
#pragma unroll
    for (int k = 0; k < padded_key; k += 16) {
      if (k == 0) {
        Products::template with_rows<steps, false>(gram.tile, rows[0], t.keys, 0, 0);
        Products::template with_rows<padded_tokens, false>(reads.tile, rows[0], t.queries, 0, 0);
      } else {
        Products::template with_rows<steps, true>(gram.tile, rows[k / 16], t.keys, 0, k);
        Products::template with_rows<padded_tokens, true>(reads.tile, rows[k / 16], t.queries, 0, k);
      }
    }
    Products::commit();
    Products::template wait<0>(gram, reads);
  } else {
    inner_products(gram, t.keys, t.keys, t.row, t.row + 16);
    inner_products(reads, t.keys, t.queries, t.row, padded_tokens);
  }
}

/// f from the diagonal of K K^T.
template <class Shape>
__device__ __forceinline__ void find_norm_factors(const CoupleThread<Shape>& t,
                                                  const typename Shape::Gram& gram) {
  each_on_diagonal(gram, t.row, [&](int r, float squares) {
    const float factor = squares > 0 ? 1 / sqrtf(squares) : 0.0F;
    t.numbers.factors[r] = factor;
    t.numbers.weights[r] *= factor;
  });
}

/// Of the steps whose rows a lane has.
struct OwnSteps {
  float factor[2], weight[2], high[2], low[2];
  int token[2];

  template <class Shape>
  __device__ __forceinline__ explicit OwnSteps(const CoupleThread<Shape>& t) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = t.row + lane_row() + 8 * i;
      factor[i] = t.numbers.factors[r];
      weight[i] = t.a.scale * t.numbers.weights[r];
      token[i] = t.token_of(r);
      if (t.decays) high[i] = t.numbers.step_high[r], low[i] = t.numbers.step_low[r];
    }
  }
};

/// Step 3: A. What is above the diagonal is not read.
template <class Shape>
__device__ __forceinline__ void couple_steps(const CoupleThread<Shape>& t, const OwnSteps& own,
                                             typename Shape::Gram& gram) {
  const auto& numbers = t.numbers;
#pragma unroll
  for (int n = 0; n < Shape::steps; n += 16) {
    if (n > t.row) continue;
#pragma unroll
    for (int j = n / 8; j < n / 8 + 2; ++j) {
      const int s = 8 * j + lane_column();
      const float2 weight = *reinterpret_cast<const float2*>(numbers.weights + s);
      float(&x)[4] = gram.tile[j];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] *= own.factor[i / 2] * (i % 2 == 0 ? weight.x : weight.y);
      if (t.decays) {
        const float2 from_high = *reinterpret_cast<const float2*>(numbers.step_high + s),
                     from_low = *reinterpret_cast<const float2*>(numbers.step_low + s);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          x[i] *= ptx::exp2((own.high[i / 2] - (i % 2 == 0 ? from_high.x : from_high.y)) +
                            (own.low[i / 2] - (i % 2 == 0 ? from_low.x : from_low.y)));
      }
      if (n == t.row) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (s + i % 2 >= t.row + lane_row() + i / 2 * 8) x[i] = 0;
        }
      }
    }
    t.coupling.store(gram.tile[n / 8], gram.tile[n / 8 + 1], t.row, n);
  }
}

template <class Shape>
__device__ __forceinline__ void store_scales(const CoupleThread<Shape>& t) {
  using Scales = ChunkScales<Shape::steps>;
  const auto& numbers = t.numbers;
  const bool decays = t.decays;
  float* const scales = t.a.scales + t.place.slot * Scales::count;
  if (t.thread < Shape::steps) {
    const int r = t.thread, token = t.token_of(r), last = t.a.sizes.tokens - 1;
    scales[Scales::start + r] = numbers.factors[r] * (decays ? numbers.decays.up_to(token) : 1.0F);
    scales[Scales::end + r] = numbers.weights[r] * (decays ? numbers.decays.between(token, last) : 1.0F);
    scales[Scales::read + r] = t.a.scale * (decays && r <= last ? numbers.decays.up_to(r) : 1.0F);
    scales[Scales::factor + r] = numbers.factors[r];
    if (r == 0) scales[Scales::whole] = decays ? numbers.decays.up_to(last) : 1.0F;
  }
}

/// Step 5: scores. Queries that are missing are 0, and so are their products.
template <class Shape>
__device__ __forceinline__ void score_steps(const CoupleThread<Shape>& t, const OwnSteps& own,
                                            typename Shape::Reads& reads) {
  const auto& decays = t.numbers.decays;
#pragma unroll
  for (int j = 0; j < Shape::padded_tokens / 8; ++j) {
    const int token = 8 * j + lane_column();
    float(&x)[4] = reads.tile[j];
    float2 to_high, to_low;
    if (t.decays) {
      to_high = *reinterpret_cast<const float2*>(decays.high + token);
      to_low = *reinterpret_cast<const float2*>(decays.low + token);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // The decay to an earlier token may be infinite.
      const float decay = t.decays ? ptx::exp2(((i % 2 == 0 ? to_high.x : to_high.y) - own.high[i / 2]) +
                                               ((i % 2 == 0 ? to_low.x : to_low.y) - own.low[i / 2]))
                                   : 1.0F;
      x[i] = token + i % 2 >= own.token[i / 2] ? x[i] * own.weight[i / 2] * decay : 0.0F;
    }
  }
}

template <class Shape>
__device__ __forceinline__ void store_scores(const CoupleThread<Shape>& t,
                                             const typename Shape::Reads& reads) {
  using Product = typename Shape::Product;
  constexpr int token_tiles = Shape::padded_tokens / 8;
  if constexpr (Shape::StepTile::packed) {
    const int lane = t.thread % 32;
#pragma unroll
    for (int j = 0; j < token_tiles; j += 2)
      ptx::store_matrices_transposed(
          Product::left(reads.tile[j], reads.tile[j + 1]).part,
          t.scores.at_vector(8 * j + lane % 8 + lane / 16 * 8, t.row / 8 + lane / 8 % 2));
  } else {
#pragma unroll
    for (int j = 0; j < token_tiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        t.scores.at(8 * j + lane_column() + i % 2, t.row + lane_row() + i / 2 * 8) = reads.tile[j][i];
    }
  }
}

template <class Shape>
__device__ __forceinline__ void store_inverse(const CoupleThread<Shape>& t) {
#pragma unroll
  for (int n = 0; n < Shape::steps; n += 16) {
    Rows<2> x;
    x.set_zero();
    if (n <= t.row) FloatProduct<true>::unpack(t.coupling.left(t.row, n), x.tile[0], x.tile[1]);
    t.inverse.store(Shape::Product::left(x.tile[0], x.tile[1]), t.row, n);
  }
}

/// Copies images that were made in shared memory to global memory.
template <class Shape>
__device__ __forceinline__ void send_images(const CoupleThread<Shape>& t) {
  if constexpr (Shape::StepTile::packed) {
    ptx::fence_proxy_async();
    __syncthreads();
    if (t.thread > 0) return;
    ptx::copy_bulk_to_global(t.score_image, t.scores.data,
                             static_cast<unsigned>(t.scores.bytes(Shape::padded_tokens)));
    ptx::copy_bulk_to_global(t.inverse_image, t.inverse.data,
                             static_cast<unsigned>(t.inverse.bytes(Shape::steps)));
    ptx::copy_bulk_wait_read();
  }
}

template <class Product, int padded_key, int padded_tokens>
__global__ __launch_bounds__(2 * chunk_steps<Product, padded_key>) void couple_chunks(
    ChunkedArguments<typename Product::Element> a) {
  using Shape = Coupling<Product, padded_key, padded_tokens>;
  const TokenSequence sequence = sequence_of(a.sizes.sequences, blockIdx.z);
  if (blockIdx.x * static_cast<Index>(a.sizes.tokens) >= sequence.count) return;
  const ChunkPlace place(a.sizes, sequence, first_chunk(a.sizes, sequence, blockIdx.z), blockIdx.x,
                         static_cast<int>(blockIdx.y));
  const CoupleThread<Shape> t{a, place};
  // 1. The inputs of steps come while addresses of the rest are computed.
  const StepInputs inputs = load_step_inputs(t);
  load_keys_and_queries(t);
  share_step_inputs(t, inputs);
  ptx::cp_async_wait<0>();
  ptx::fence_proxy_async();
  __syncthreads();
  // 2.
  typename Shape::Gram gram;
  typename Shape::Reads reads;
  multiply_keys(t, gram, reads);
  if (a.unit_keys) find_norm_factors(t, gram);
  __syncthreads();  // images take the place of keys and queries
  // 3.
  const OwnSteps own(t);
  couple_steps(t, own, gram);
  store_scales(t);
  // 4. On the diagonal.
  __syncwarp();  // a warp's block on the diagonal is its own
  invert_diagonal_block(t.coupling, t.row);
  // 5.
  score_steps(t, own, reads);
  store_scores(t, reads);
  __syncthreads();
  // 4. Below the diagonal.
  join_blocks<16>(t.coupling);
  if constexpr (Shape::steps == 64) join_blocks<32>(t.coupling);
  store_inverse(t);
  send_images(t);
}

}  // namespace orthornn::cuda
