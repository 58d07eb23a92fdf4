#pragma once
// First kernel of the chunked delta product: everything of a chunk that needs no state, for all chunks at
// once.
//
// A block has one head of one chunk, and a warp 16 of its C micro-steps. With g_t the sum of the logarithms
// of the decays up to token t and f_r what makes key r have norm 1:
//
//   1. Keys and queries to shared memory, and g
//   2. A_rs = beta_s e^(g_r - g_s) f_r f_s k_r.k_s for s < r: the lower blocks of K K^T, by tensor cores
//   3. scores P_ts = scale beta_s e^(g_t - g_s) f_s q_t.k_s for the micro-steps s up to token t, likewise
//   4. (I + A)^-1 in float: blocks of 16 on the diagonal by substitution, a thread a column; then
//      [X 0; B Y]^-1 = [X^-1 0; -Y^-1 B X^-1 Y^-1] for blocks of 16 and of 32, by products with the errors of
//      float. Keys may repeat and beta be 2: a series in powers of A would not do.
//
// Substitution of whole columns, without blocks, took 210 us in place of 163 us (4096 chunks and heads, C
// = 64): its code did not fit into the instruction cache.
//
// Shared memory: keys [C, K], queries [tokens, K], A [C, C] in float, g.

#include "cuda/delta/chunked_arguments.cuh"

namespace orthornn::cuda {

/// Decays below e^-200 are 0 in a float, and so is what they decay.
inline constexpr float lowest_log_decay = -200.0F;

/// Sums of the logarithms of decays up to each token of a chunk, to base 2 and each in two floats, so that a
/// difference of two sums is exact to a float.
template <int steps>
struct DecaySums {
  float high[steps], low[steps];
  double first_half;

  /// By all threads of a block, which has `steps` at least. Tokens that are missing do not decay.
  template <class Arguments>
  __device__ __forceinline__ void compute(const Arguments& a, const ChunkPlace& place) {
    const int t = static_cast<int>(threadIdx.x), lane = t % 32;
    double sum = 0;
    if (t < place.tokens) {
      constexpr double log2_e = 1.4426950408889634;
      const float log = *token_rows(a.log_decays, 1, a.sizes, place)[t];
      sum = log2_e * static_cast<double>(log < lowest_log_decay ? lowest_log_decay : log);
    }
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
    return exp2f((high[to] - high[from]) + (low[to] - low[from]));
  }
  /// From the begin of the chunk.
  __device__ __forceinline__ float up_to(int token) const { return exp2f(high[token] + low[token]); }
};

template <class Product, int padded_key>
struct Coupling {
  static constexpr int steps = chunk_steps<Product, padded_key>;
  static constexpr int threads = 2 * steps;
  using Inverse = FloatProduct<true>;
  using KeyTile = Tile<Product, padded_key>;
  using StepTile = Tile<Product, steps>;

  struct alignas(16) Numbers {
    /// What makes a key have norm 1, and beta times this.
    float factors[steps], weights[steps];
    DecaySums<steps> decays;
  };
  static std::size_t shared(int padded_tokens) {
    return Tile<Inverse, steps>::bytes(steps) + KeyTile::bytes(steps + padded_tokens) + sizeof(Numbers);
  }
};

/// Replaces the block of 16 on the diagonal from `begin` on, of I + A with A below the diagonal, by its
/// inverse. Half a warp does it, a thread a column.
template <class Tile>
__device__ __forceinline__ void invert_diagonal_block(const Tile& a, int begin, int column) {
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float sums[4] = {i == column ? 1.0F : 0.0F, 0, 0, 0};
#pragma unroll
    for (int s = 0; s < i; s += 4) {
      const float4 row = *reinterpret_cast<const float4*>(a.at_vector(begin + i, (begin + s) / 4));
      sums[0] -= row.x * x[s];
      if (s + 1 < i) sums[1] -= row.y * x[s + 1];
      if (s + 2 < i) sums[2] -= row.z * x[s + 2];
      if (s + 3 < i) sums[3] -= row.w * x[s + 3];
    }
    x[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16; ++i) a.at(begin + i, begin + column) = x[i];
}

/// 16 rows from `row` on of B <- -Y^-1 B X^-1, with blocks of `size` that X begins at `begin`: the inverses
/// are in place.
template <int size, class Product, int columns>
__device__ __forceinline__ void mend_lower_block(const Tile<Product, columns>& a, int begin, int row,
                                                 Rows<size / 8>& result) {
  Rows<size / 8> product;
  product.set_zero();
#pragma unroll 1
  for (int k = 0; k < size; k += 16) {
    const auto left = a.left(row, begin + size + k);
#pragma unroll
    for (int n = 0; n < size; n += 16) {
      typename Product::Right right[2];
      a.right(right, begin + size + k, begin + n);
      Product::multiply(product.tile[n / 8], left, right[0]);
      Product::multiply(product.tile[n / 8 + 1], left, right[1]);
    }
  }
  result.set_zero();
#pragma unroll
  for (int k = 0; k < size; k += 16) {
    const auto left = Product::left(product.tile[k / 8], product.tile[k / 8 + 1]);
#pragma unroll
    for (int n = 0; n < size; n += 16) {
      typename Product::Right right[2];
      a.right(right, begin + k, begin + n);
      Product::multiply(result.tile[n / 8], left, right[0]);
      Product::multiply(result.tile[n / 8 + 1], left, right[1]);
    }
  }
#pragma unroll
  for (auto& tile : result.tile) {
#pragma unroll
    for (float& x : tile) x = -x;
  }
}

/// Joins the inverses of blocks of `size` to those of blocks of twice the size. By the whole block.
template <int size, class Product, int columns>
__device__ __forceinline__ void join_blocks(const Tile<Product, columns>& a) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // Of the rows of 16, the lower `size` of every two `size`.
  const int row = warp / (size / 16) * 2 * size + size + warp % (size / 16) * 16,
            begin = row / (2 * size) * 2 * size;
  const bool works = row < columns;
  Rows<size / 8> result;
  if (works) mend_lower_block<size>(a, begin, row, result);
  __syncthreads();
  if (works) {
#pragma unroll
    for (int n = 0; n < size; n += 16)
      a.store(Product::left(result.tile[n / 8], result.tile[n / 8 + 1]), row, begin + n);
  }
  __syncthreads();
}

/// The factors that make the keys of a tile have norm 1.
template <class Tile>
__device__ __forceinline__ float key_factor(const Tile& keys, int r) {
  float squares = 0;
#pragma unroll 1
  for (int v = 0; v < Tile::vectors; ++v) {
    const auto* const x = keys.at_vector(r, v);
#pragma unroll
    for (int j = 0; j < 16 / static_cast<int>(sizeof(*x)); ++j) {
      const float k = static_cast<float>(x[j]);
      squares += k * k;
    }
  }
  return squares > 0 ? 1 / sqrtf(squares) : 0.0F;
}

/// 16 rows from `row` on of `left` times the rows of `right` below `end`, transposed.
template <class Product, int padded_key, int step_tiles>
__device__ __forceinline__ void inner_products(Rows<step_tiles>& product,
                                               const Tile<Product, padded_key>& left,
                                               const Tile<Product, padded_key>& right, int row, int end) {
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

template <class Product, int padded_key>
__global__ __launch_bounds__(2 * chunk_steps<Product, padded_key>) void couple_chunks(
    ChunkedArguments<typename Product::Element> a) {
  using Shape = Coupling<Product, padded_key>;
  using E = typename Product::Element;
  using Inverse = typename Shape::Inverse;
  constexpr int steps = Shape::steps, threads = Shape::threads;
  const TokenSequence sequence = sequence_of(a.sizes.sequences, blockIdx.z);
  if (blockIdx.x * static_cast<Index>(a.sizes.tokens) >= sequence.count) return;
  const ChunkPlace place(a.sizes, sequence, first_chunk(a.sizes, sequence, blockIdx.z), blockIdx.x,
                         static_cast<int>(blockIdx.y));

  auto& numbers = *reinterpret_cast<typename Shape::Numbers*>(dynamic_shared_memory());
  const Tile<Inverse, steps> coupling{reinterpret_cast<float*>(dynamic_shared_memory() + sizeof(numbers))};
  const typename Shape::KeyTile keys{reinterpret_cast<E*>(coupling.data + steps * steps)};
  const typename Shape::KeyTile queries{keys.data + steps * padded_key};

  // 1. Inputs.
  const int thread = static_cast<int>(threadIdx.x);
  load_rows<threads, steps>(thread, keys, steps, step_rows(a.keys, a.sizes.key, a.sizes, place), a.sizes.key,
                            0, place.steps, a.aligned_keys);
  load_rows<threads, steps>(thread, queries, a.sizes.padded_tokens,
                            token_rows(a.queries, a.sizes.key, a.sizes, place), a.sizes.key, 0, place.tokens,
                            a.aligned_keys);
  ptx::cp_async_commit();
  if (thread < steps) {
    numbers.weights[thread] = thread < place.steps ? *step_rows(a.betas, 1, a.sizes, place)[thread] : 0.0F;
    numbers.factors[thread] = 1;
  }
  const bool decays = a.log_decays != nullptr;
  if (decays) numbers.decays.compute(a, place);
  ptx::cp_async_wait<0>();
  __syncthreads();
  if (a.unit_keys) {
    if (thread < steps) {
      numbers.factors[thread] = key_factor(keys, thread);
      numbers.weights[thread] *= numbers.factors[thread];
    }
    __syncthreads();
  }

  const int warp = thread / 32, row = 16 * warp;
  const float* const factors = numbers.factors;
  const float* const weights = numbers.weights;
  const auto token_of = [&](int r) { return min(a.sizes.token_of(r), a.sizes.tokens - 1); };
  const auto decay = [&](int from, int to) { return decays ? numbers.decays.between(from, to) : 1.0F; };

  // 2. A.
  Rows<steps / 8> product;
  inner_products(product, keys, keys, row, row + 16);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row + lane_row() + i * 8, to = token_of(r);
    const float factor = factors[r];
#pragma unroll
    for (int j = 0; j < steps / 8; ++j) {
      const int s = 8 * j + lane_column();
      const float2 weight = *reinterpret_cast<const float2*>(weights + s);
      float x = s < r ? product.tile[j][2 * i] * weight.x * factor : 0.0F;
      float y = s + 1 < r ? product.tile[j][2 * i + 1] * weight.y * factor : 0.0F;
      if (decays && s < r) x *= decay(token_of(s), to);
      if (decays && s + 1 < r) y *= decay(token_of(s + 1), to);
      store_pair(&coupling.at(r, s), x, y, 2, true);
    }
  }
  // 3. Scores.
  if (row < a.sizes.padded_tokens) {
    inner_products(product, queries, keys, row, (row + 16) * a.sizes.factors);
    const typename Shape::StepTile scores{a.scores + place.slot * a.sizes.padded_tokens * steps};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int t = row + lane_row() + i * 8, end = t < a.sizes.tokens ? (t + 1) * a.sizes.factors : 0;
#pragma unroll
      for (int j = 0; j < steps / 8; ++j) {
        const int s = 8 * j + lane_column();
        const float2 weight = *reinterpret_cast<const float2*>(weights + s);
        float x = s < end ? a.scale * product.tile[j][2 * i] * weight.x : 0.0F;
        float y = s + 1 < end ? a.scale * product.tile[j][2 * i + 1] * weight.y : 0.0F;
        if (decays && s < end) x *= decay(token_of(s), t);
        if (decays && s + 1 < end) y *= decay(token_of(s + 1), t);
        store_pair(&scores.at(t, s), x, y, 2, true);
      }
    }
  }
  using Scales = ChunkScales<steps>;
  float* const scales = a.scales + place.slot * Scales::count;
  if (thread < steps) {
    const int r = thread, t = token_of(r), last = a.sizes.tokens - 1;
    scales[Scales::start + r] = factors[r] * (decays ? numbers.decays.up_to(t) : 1.0F);
    scales[Scales::end + r] = weights[r] * decay(t, last);
    scales[Scales::read + r] = a.scale * (decays && r <= last ? numbers.decays.up_to(r) : 1.0F);
    if (r == 0) scales[Scales::whole] = decays ? numbers.decays.up_to(last) : 1.0F;
  }
  // 4. The inverse.
  __syncthreads();
  if (thread < steps) invert_diagonal_block(coupling, thread / 16 * 16, thread % 16);
  __syncthreads();
  join_blocks<16>(coupling);
  if constexpr (steps == 64) join_blocks<32>(coupling);
  const typename Shape::StepTile inverse{a.inverse + place.slot * steps * steps};
#pragma unroll 4
  for (int i = 2 * thread; i < steps * steps; i += 2 * threads) {
    const int r = i / steps, s = i % steps;
    const float2 x = *reinterpret_cast<const float2*>(&coupling.at(r, s));
    store_pair(&inverse.at(r, s), x.x, x.y, 2, true);
  }
}

}  // namespace orthornn::cuda
