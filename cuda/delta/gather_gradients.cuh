#pragma once
// Second kernel of the backward of the chunked delta product: the gradients of all inputs, for all chunks at
// once.
//
// A block has one head of one chunk. A warp has 16 rows of the results, the micro-steps or tokens from 16 m
// on, and 64 of the K columns. The formulas, with err the errors, z their gradients, unit keys f k, and
// scales as `ChunkScales` without beta where a beta is written:
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
// and dk_r - f_r^2 k_r (k_r . dk_r) where keys are made unit. `log_sums` has the gradient with respect to
// g_t. That of a_t is the sum over the tokens from t on.
//
//   1. X, M and dS err over the values, 64 at a time; dv is z
//   2. dP, G, and the sums that need D
//   3. S z and then S dO over the values
//   4. The products of dP and G
//
// Shared memory: keys [C, K], queries [tokens, K], a state or its gradient [64, K], dO [tokens, 64], err and
// z [64, C], dP [tokens, C], G [C, C], sums.

#include "cuda/delta/couple_chunks.cuh"

namespace orthornn::cuda {

template <class Product, int padded_key>
struct Gather {
  static constexpr int steps = chunk_steps<Product, padded_key>;
  static constexpr int values = 64;
  /// Warps side by side over the columns, and over the rows.
  static constexpr int parts = padded_key / 64, rows = steps / 16;
  static constexpr int threads = 32 * parts * rows;
  /// Blocks that a multiprocessor shall hold: one loads while another computes.
  static constexpr int blocks = Product::vector != 8 || padded_key > 128 ? 1 : padded_key == 64 ? 3 : 2;
  using E = typename Product::Element;
  using KeyTile = Tile<Product, padded_key>;
  using ValueTile = Tile<Product, values>;
  using StepTile = Tile<Product, steps>;

  /// Sums of one column by the warps of the rows, and of one row by those of the parts.
  struct alignas(16) Sums {
    DecaySums<steps> decays;
    float betas[steps], factors[steps], starts[steps], ends[steps];
    float column_beta[rows][steps], column_log[rows][steps];
    float gram_beta[rows][steps], gram_log[rows][steps];
    float row_log[steps], gram_row_log[steps];
    float end_dot[parts][steps], start_dot[parts][steps], query_dot[parts][steps], key_dot[parts][steps];
    float state_dot[threads / 32];
    float log_sums[steps];
  };
  static std::size_t shared(int padded_tokens) {
    return KeyTile::bytes(steps + padded_tokens + values) + ValueTile::bytes(padded_tokens) +
           StepTile::bytes(2 * values + padded_tokens + steps) + sizeof(Sums);
  }
};

/// The sum over the four lanes of a row.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(whole_warp, x, 1);
  return x + __shfl_xor_sync(whole_warp, x, 2);
}
/// The sum over the eight lanes of a column.
__device__ __forceinline__ float column_sum(float x) {
  x += __shfl_xor_sync(whole_warp, x, 4);
  x += __shfl_xor_sync(whole_warp, x, 8);
  return x + __shfl_xor_sync(whole_warp, x, 16);
}

/// Writes to sums[i][row] the products of 16 rows of `x` with those of a tile, over 64 columns.
template <class Product, int columns>
__device__ __forceinline__ void row_dots(const Rows<8>& x, const Tile<Product, columns>& tile, int row,
                                         int column, float* sums) {
  float sum[2] = {};
#pragma unroll
  for (int k = 0; k < 64; k += 16) {
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
    const float total = row_sum(sum[i]);
    if (lane_column() == 0) sums[row + lane_row() + 8 * i] = total;
  }
}

template <class Product, int padded_key>
__global__ __launch_bounds__(
    Gather<Product, padded_key>::threads,
    Gather<Product, padded_key>::blocks) void gather_gradients(ChunkedArguments<typename Product::Element> a,
                                                               ChunkedGradients<typename Product::Element>
                                                                   gradients) {
  using Shape = Gather<Product, padded_key>;
  using E = typename Product::Element;
  using Right = typename Product::Right;
  constexpr int steps = Shape::steps, threads = Shape::threads, step_tiles = steps / 8;
  const TokenSequence sequence = sequence_of(a.sizes.sequences, blockIdx.z);
  if (blockIdx.x * static_cast<Index>(a.sizes.tokens) >= sequence.count) return;
  const ChunkPlace place(a.sizes, sequence, first_chunk(a.sizes, sequence, blockIdx.z), blockIdx.x,
                         static_cast<int>(blockIdx.y));
  const int padded_tokens = a.sizes.padded_tokens, factors = a.sizes.factors;

  auto& sums = *reinterpret_cast<typename Shape::Sums*>(dynamic_shared_memory());
  E* next = reinterpret_cast<E*>(dynamic_shared_memory() + sizeof(sums));
  const auto take = [&](int count) {
    E* const here = next;
    next += count;
    return here;
  };
  const typename Shape::KeyTile keys{take(steps * padded_key)}, queries{take(padded_tokens * padded_key)},
      state{take(Shape::values * padded_key)};
  const typename Shape::ValueTile d_outputs{take(padded_tokens * Shape::values)};
  const typename Shape::StepTile errors{take(Shape::values * steps)}, d_errors{take(Shape::values * steps)},
      d_scores{take(padded_tokens * steps)}, d_gram{take(steps * steps)};

  const int warp = static_cast<int>(threadIdx.x) / 32, part = warp / Shape::rows,
            row = warp % Shape::rows * 16;
  const int key_column = 64 * part;
  const bool has_tokens = row < padded_tokens, decays = a.log_decays != nullptr;
  const bool first_part = part == 0, last_part = part == Shape::parts - 1;
  const int thread = static_cast<int>(threadIdx.x);
  const auto token_of = [&](int r) { return min(a.sizes.token_of(r), a.sizes.tokens - 1); };
  const auto decay = [&](int from, int to) { return decays ? sums.decays.between(from, to) : 1.0F; };

  load_rows<threads, steps>(thread, keys, steps, step_rows(a.keys, a.sizes.key, a.sizes, place), a.sizes.key,
                            0, place.steps, a.aligned_keys);
  load_rows<threads, steps>(thread, queries, padded_tokens,
                            token_rows(a.queries, a.sizes.key, a.sizes, place), a.sizes.key, 0, place.tokens,
                            a.aligned_keys);
  ptx::cp_async_commit();
  if (thread < steps) {
    const int r = thread;
    sums.betas[r] = r < place.steps ? *step_rows(a.betas, 1, a.sizes, place)[r] : 0.0F;
    sums.factors[r] = 1;
    sums.row_log[r] = sums.gram_row_log[r] = 0;
    for (int i = 0; i < Shape::rows; ++i)
      sums.column_beta[i][r] = sums.column_log[i][r] = sums.gram_beta[i][r] = sums.gram_log[i][r] = 0;
    for (int i = 0; i < Shape::parts; ++i) sums.query_dot[i][r] = 0;
  }
  if (decays) sums.decays.compute(a, place);
  ptx::cp_async_wait<0>();
  __syncthreads();
  if (a.unit_keys) {
    if (thread < steps) sums.factors[thread] = key_factor(keys, thread);
    __syncthreads();
  }
  if (thread < steps) {
    const int r = thread, t = token_of(r);
    sums.starts[r] = sums.factors[r] * (decays ? sums.decays.up_to(t) : 1.0F);
    sums.ends[r] = sums.factors[r] * decay(t, a.sizes.tokens - 1);
  }
  const auto begin_values = [&](const E* states, int value) {
    __syncthreads();  // the last ones have been read
    load_image<threads, Shape::values>(thread, state, Shape::values,
                                       states + (place.slot * a.sizes.padded_value + value) * padded_key);
  };
  const auto load_d_errors = [&](int value) {
    load_image<threads, Shape::values>(
        thread, d_errors, Shape::values,
        gradients.d_errors + (place.slot * a.sizes.padded_value + value) * steps);
  };
  const auto d_output_rows = token_rows(gradients.d_outputs, a.sizes.value, a.sizes, place);
  const auto load_d_outputs = [&](int value) {
    load_rows<threads, steps>(thread, d_outputs, padded_tokens, d_output_rows, a.sizes.value, value,
                              place.tokens, a.aligned_values);
  };
  const auto wait = [] {
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncthreads();
  };

  // 1. Products with the errors.
  // A warp has X or M, or both where a row of warps has one part.
  constexpr int own = Shape::parts == 1 ? 1 : 0;
  Rows<step_tiles> pair_parts[own + 1];
  Rows<step_tiles>&score_part = pair_parts[0], &gram_part = pair_parts[own];
  Rows<8> d_key;  // dS err
  for (auto& x : pair_parts) x.set_zero();
  d_key.set_zero();
  const auto d_value_rows = step_rows(gradients.d_values, a.sizes.value, a.sizes, place);
#pragma unroll 1
  for (int value = 0; value < a.sizes.padded_value; value += Shape::values) {
    begin_values(gradients.d_states, value);
    load_d_errors(value);
    load_d_outputs(value);
    load_image<threads, Shape::values>(thread, errors, Shape::values,
                                       a.errors + (place.slot * a.sizes.padded_value + value) * steps);
    wait();
#pragma unroll 1
    for (int v = 0; v < Shape::values; v += 16) {
      const auto of_error = errors.left_transposed(v, row);
#pragma unroll
      for (int k = 0; k < 64; k += 16) {
        Right right[2];
        state.right(right, v, key_column + k);
        Product::multiply(d_key.tile[k / 8], of_error, right[0]);
        Product::multiply(d_key.tile[k / 8 + 1], of_error, right[1]);
      }
      if (first_part && has_tokens) {
        const auto of_output = d_outputs.left(row, v);
#pragma unroll
        for (int n = 0; n < steps; n += 16) {
          if (n >= (row + 16) * factors) continue;
          Right right[2];
          errors.right(right, v, n);
          Product::multiply(score_part.tile[n / 8], of_output, right[0]);
          Product::multiply(score_part.tile[n / 8 + 1], of_output, right[1]);
        }
      }
      if (last_part) {
        const auto of_d_error = d_errors.left_transposed(v, row);
#pragma unroll
        for (int n = 0; n < steps; n += 16) {
          if (n > row) continue;
          Right right[2];
          errors.right(right, v, n);
          Product::multiply(gram_part.tile[n / 8], of_d_error, right[0]);
          Product::multiply(gram_part.tile[n / 8 + 1], of_d_error, right[1]);
        }
      }
      if (v / 16 % Shape::parts == part) {
        float x[2][4];
        Product::unpack(d_errors.left_transposed(v, row), x[0], x[1]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int r = row + lane_row() + 8 * i;
          if (r >= place.steps) continue;
          E* const to = d_value_rows[r];
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const int column = value + v + 8 * j + lane_column();
            store_pair(to + column, x[j][2 * i], x[j][2 * i + 1], a.sizes.value - column, a.paired_values);
          }
        }
      }
    }
  }
  row_dots(d_key, keys, row, key_column, sums.end_dot[part]);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int r = row + lane_row() + i / 2 * 8;
    const float end = sums.betas[r] * sums.ends[r];
#pragma unroll
    for (int j = 0; j < 8; ++j) d_key.tile[j][i] *= end;
  }

  // 2. Through the scores, and through the coupling of micro-steps.
  if (first_part && has_tokens) {
    Rows<step_tiles> product;
    inner_products(product, queries, keys, row, (row + 16) * factors);
    float row_logs[2] = {};
#pragma unroll
    for (int j = 0; j < step_tiles; ++j) {
      float of_beta[2] = {}, of_log[2] = {}, d[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = row + lane_row() + i / 2 * 8, s = 8 * j + lane_column() + i % 2;
        const bool reads = s < (t + 1) * factors && t < a.sizes.tokens;
        const float x =
            reads ? a.scale * sums.factors[s] * decay(token_of(s), t) * score_part.tile[j][i] : 0.0F;
        d[i] = sums.betas[s] * x;
        of_beta[i % 2] += x * product.tile[j][i];
        if (decays && s < t * factors) {
          of_log[i % 2] += d[i] * product.tile[j][i];
          row_logs[i / 2] += d[i] * product.tile[j][i];
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        store_pair(&d_scores.at(row + lane_row() + 8 * i, 8 * j + lane_column()), d[2 * i], d[2 * i + 1], 2,
                   true);
        const float beta = column_sum(of_beta[i]), log = decays ? column_sum(of_log[i]) : 0.0F;
        if (lane_row() == 0) {
          sums.column_beta[row / 16][8 * j + lane_column() + i] = beta;
          sums.column_log[row / 16][8 * j + lane_column() + i] = log;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2 && decays; ++i) {
      const float log = row_sum(row_logs[i]);
      if (lane_column() == 0) sums.row_log[row + lane_row() + 8 * i] = log;
    }
  }
  if (last_part) {
    Rows<step_tiles> product;
    inner_products(product, keys, keys, row, row + 16);
    float row_logs[2] = {};
#pragma unroll
    for (int j = 0; j < step_tiles; ++j) {
      float of_beta[2] = {}, of_log[2] = {}, d[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row + lane_row() + i / 2 * 8, s = 8 * j + lane_column() + i % 2;
        const float x = s < r ? -sums.factors[r] * sums.factors[s] * decay(token_of(s), token_of(r)) *
                                    gram_part.tile[j][i]
                              : 0.0F;
        d[i] = sums.betas[s] * x;
        of_beta[i % 2] += x * product.tile[j][i];
        if (decays && token_of(s) < token_of(r)) {
          of_log[i % 2] += d[i] * product.tile[j][i];
          row_logs[i / 2] += d[i] * product.tile[j][i];
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        store_pair(&d_gram.at(row + lane_row() + 8 * i, 8 * j + lane_column()), d[2 * i], d[2 * i + 1], 2,
                   true);
        const float beta = column_sum(of_beta[i]), log = decays ? column_sum(of_log[i]) : 0.0F;
        if (lane_row() == 0) {
          sums.gram_beta[row / 16][8 * j + lane_column() + i] = beta;
          sums.gram_log[row / 16][8 * j + lane_column() + i] = log;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2 && decays; ++i) {
      const float log = row_sum(row_logs[i]);
      if (lane_column() == 0) sums.gram_row_log[row + lane_row() + 8 * i] = log;
    }
  }

  // 3. Products with the state before the chunk: for keys, and then for queries.
  float state_dot = 0;
  {
    Rows<8> by_state;
    by_state.set_zero();
#pragma unroll 1
    for (int value = 0; value < a.sizes.padded_value; value += Shape::values) {
      begin_values(a.states, value);
      load_d_errors(value);
      wait();
#pragma unroll 1
      for (int v = 0; v < Shape::values; v += 16) {
        const auto of_d_error = d_errors.left_transposed(v, row);
#pragma unroll
        for (int k = 0; k < 64; k += 16) {
          Right right[2];
          state.right(right, v, key_column + k);
          Product::multiply(by_state.tile[k / 8], of_d_error, right[0]);
          Product::multiply(by_state.tile[k / 8 + 1], of_d_error, right[1]);
        }
      }
      if (decays) {  // both are images
        const E* const d_after =
            gradients.d_states + (place.slot * a.sizes.padded_value + value) * padded_key;
#pragma unroll 4
        for (int i = 2 * thread; i < Shape::values * padded_key; i += 2 * threads)
          state_dot += static_cast<float>(d_after[i]) * static_cast<float>(state.data[i]) +
                       static_cast<float>(d_after[i + 1]) * static_cast<float>(state.data[i + 1]);
      }
    }
    if (decays) {
      row_dots(by_state, keys, row, key_column, sums.start_dot[part]);
      state_dot = warp_sum(state_dot);
      if (threadIdx.x % 32 == 0) sums.state_dot[warp] = state_dot;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float start = sums.starts[row + lane_row() + i / 2 * 8];
#pragma unroll
      for (int j = 0; j < 8; ++j) d_key.tile[j][i] -= start * by_state.tile[j][i];
    }
  }
  Rows<8> d_query;
  d_query.set_zero();
#pragma unroll 1
  for (int value = 0; value < a.sizes.padded_value; value += Shape::values) {
    begin_values(a.states, value);
    load_d_outputs(value);
    wait();
    if (!has_tokens) continue;
#pragma unroll 1
    for (int v = 0; v < Shape::values; v += 16) {
      const auto of_output = d_outputs.left(row, v);
#pragma unroll
      for (int k = 0; k < 64; k += 16) {
        Right right[2];
        state.right(right, v, key_column + k);
        Product::multiply(d_query.tile[k / 8], of_output, right[0]);
        Product::multiply(d_query.tile[k / 8 + 1], of_output, right[1]);
      }
    }
  }
  if (decays && has_tokens) row_dots(d_query, queries, row, key_column, sums.query_dot[part]);
  const auto read = [&](int t) {
    return a.scale * (decays && t < a.sizes.tokens ? sums.decays.up_to(t) : 1.0F);
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float of_query = read(row + lane_row() + i / 2 * 8);
#pragma unroll
    for (int j = 0; j < 8; ++j) d_query.tile[j][i] *= of_query;
  }

  // 4. Products of the gradients of the scores and of the coupling.
  __syncthreads();
#pragma unroll 1
  for (int s = 0; s < steps; s += 16) {
    const bool reads = has_tokens && s < (row + 16) * factors;
    typename Product::Left of_score, of_gram, of_gram_transposed;
    if (reads) of_score = d_scores.left(row, s);
    if (s <= row) of_gram = d_gram.left(row, s);
    if (s >= row) of_gram_transposed = d_gram.left_transposed(s, row);
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
      Right right[2];
      keys.right(right, s, key_column + k);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (reads) Product::multiply(d_query.tile[k / 8 + j], of_score, right[j]);
        if (s <= row) Product::multiply(d_key.tile[k / 8 + j], of_gram, right[j]);
        if (s >= row) Product::multiply(d_key.tile[k / 8 + j], of_gram_transposed, right[j]);
      }
    }
  }
#pragma unroll 1
  for (int t = 0; t < padded_tokens; t += 16) {
    if (row >= (t + 16) * factors) continue;
    const auto of_score = d_scores.left_transposed(t, row);
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
      Right right[2];
      queries.right(right, t, key_column + k);
      Product::multiply(d_key.tile[k / 8], of_score, right[0]);
      Product::multiply(d_key.tile[k / 8 + 1], of_score, right[1]);
    }
  }
  if (a.unit_keys) {
    row_dots(d_key, keys, row, key_column, sums.key_dot[part]);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
      float y[2][4];
      Product::unpack(keys.left(row, key_column + k), y[0], y[1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row + lane_row() + i / 2 * 8;
        float dot = 0;
        for (int p = 0; p < Shape::parts; ++p) dot += sums.key_dot[p][r];
        dot *= sums.factors[r] * sums.factors[r];
#pragma unroll
        for (int j = 0; j < 2; ++j) d_key.tile[k / 8 + j][i] -= dot * y[j][i];
      }
    }
  }
  const auto d_key_rows = step_rows(gradients.d_keys, a.sizes.key, a.sizes, place);
  const auto d_query_rows = token_rows(gradients.d_queries, a.sizes.key, a.sizes, place);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row + lane_row() + 8 * i;
    const auto store = [&](E* to, const Rows<8>& x) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = key_column + 8 * j + lane_column();
        store_pair(to + column, x.tile[j][2 * i], x.tile[j][2 * i + 1], a.sizes.key - column, a.paired_keys);
      }
    };
    if (r < place.steps) store(d_key_rows[r], d_key);
    if (r < place.tokens) store(d_query_rows[r], d_query);
  }

  // Sums: step sizes, and decays.
  const int r = thread;
  float end_dot = 0, start_dot = 0;
  if (r < steps) {
    for (int p = 0; p < Shape::parts; ++p) end_dot += sums.end_dot[p][r];
    float d_beta = sums.ends[r] * end_dot;
    for (int i = 0; i < Shape::rows; ++i) d_beta += sums.column_beta[i][r] + sums.gram_beta[i][r];
    if (r < place.steps) *step_rows(gradients.d_betas, 1, a.sizes, place)[r] = d_beta;
  }
  if (!decays) return;
  if (r < steps) {
    for (int p = 0; p < Shape::parts; ++p) start_dot += sums.start_dot[p][r];
    float log = sums.gram_row_log[r] - sums.starts[r] * start_dot - sums.betas[r] * sums.ends[r] * end_dot;
    for (int i = 0; i < Shape::rows; ++i) log -= sums.column_log[i][r] + sums.gram_log[i][r];
    sums.log_sums[r] = log;  // of the micro-step; a token has the sum of its own
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  float sum = 0;
  for (int i = 0; i < threads / 32; ++i) sum += sums.state_dot[i];
  sum *= sums.decays.up_to(a.sizes.tokens - 1);
  for (int i = 0; i < place.steps; ++i) {
    float dot = 0;
    for (int p = 0; p < Shape::parts; ++p) dot += sums.end_dot[p][i];
    sum += sums.betas[i] * sums.ends[i] * dot;
  }
  for (int t = place.tokens; t-- > 0;) {
    for (int i = t * factors; i < (t + 1) * factors; ++i) sum += sums.log_sums[i];
    sum += sums.row_log[t];
    for (int p = 0; p < Shape::parts; ++p) sum += read(t) * sums.query_dot[p][t];
    *token_rows(gradients.d_log_decays, 1, a.sizes, place)[t] = sum;
  }
}

}  // namespace orthornn::cuda
