#pragma once
// Step 2 of gather_gradients.cuh: dP^T and G^T, and the sums that need the products of keys.

#include "cuda/delta/gather_rows.cuh"
#include "cuda/delta/gather_shape.cuh"

namespace orthornn::cuda {

/// What a lane has of its two rows. The arrays are variables of their own, here and below: in one struct they
/// would leave memory late, and more of them would be spilled.
struct GatherRows {
  float (&beta)[2];
  float (&factor)[2];
  /// Scale times `factor`.
  float (&scale)[2];
  float (&high)[2];
  float (&low)[2];
  /// Tokens of the rows, and the first rows of the tokens after them.
  int (&token)[2];
  int (&later_row)[2];
};

/// What makes X and M gradients of the scores and of the coupling, without beta: the decay from a row to a
/// later token or step, with scale and factors of norms. For the tiles that may have columns before the last
/// row of the warp, `near`, a weight is an exponential. For later ones it is the decay to this last row times
/// that from there, a product. The tokens of 16 rows lie in two tiles of 8, or in three where the second
/// chunk begins within a tile.
template <class Shape>
struct GatherWeights {
  static constexpr int near_tiles = Shape::chunks == 1 ? 2 : 3;

  const GatherThread<Shape>& t;
  const GatherRows& rows;
  float (&near_tokens)[near_tiles][4];
  float (&near_steps)[2][4];
  float (&to_last)[2];
  int first_token, first_near;

  /// Of the tokens in tile j of 8.
  __device__ __forceinline__ void of_tokens(int j, float (&weights)[4]) const {
    const int token = 8 * j + lane_column();
    if constexpr (Shape::decays) {
      const float2 to = *reinterpret_cast<const float2*>(t.logs.to_token[t.row / 16] + token);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weights[i] = rows.scale[i / 2] * to_last[i / 2] * (i % 2 == 0 ? to.x : to.y);
#pragma unroll
        for (int n = 0; n < near_tiles; ++n) {
          if (j == first_near + n) weights[i] = near_tokens[n][i];
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[i] = token + i % 2 >= rows.token[i / 2] ? rows.scale[i / 2] : 0.0F;
    }
  }

  /// Of the steps in tile j of 8.
  __device__ __forceinline__ void of_steps(int j, float (&weights)[4]) const {
    const int r = 8 * j + lane_column();
    if constexpr (Shape::decays) {
      const float2 to = *reinterpret_cast<const float2*>(t.logs.to_step[t.row / 16] + r);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        weights[i] = j / 2 == t.row / 16 ? near_steps[j % 2][i]
                                         : -rows.factor[i / 2] * to_last[i / 2] * (i % 2 == 0 ? to.x : to.y);
    } else {
      const float2 factor = *reinterpret_cast<const float2*>(t.sums.factors + r);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        weights[i] = r + i % 2 > t.row + lane_row() + i / 2 * 8
                         ? -rows.factor[i / 2] * (i % 2 == 0 ? factor.x : factor.y)
                         : 0.0F;
    }
  }

  __device__ __forceinline__ float decay_to(const float* highs, const float* lows, int to, int i) const {
    return ptx::exp2((highs[to] - rows.high[i]) + (lows[to] - rows.low[i]));
  }
  /// Makes the arrays. Without decays they are not read.
  __device__ __forceinline__ void find_decays() const {
    auto& logs = t.logs;
    const float* const factors = t.sums.factors;
    const int row = t.row, last = row + 15, lane = t.thread % 32;
    const auto from_last = [&](float to_high, float to_low) {
      return ptx::exp2((to_high - logs.step_high[last]) + (to_low - logs.step_low[last]));
    };
#pragma unroll
    for (int i = 0; i < 2; ++i) to_last[i] = decay_to(logs.step_high, logs.step_low, last, i);
    // Entries of near tiles may be infinite. They are not used.
    for (int i = lane; t.has_scores && i < Shape::padded_tokens; i += 32)
      logs.to_token[row / 16][i] = i < first_token ? 0.0F : from_last(logs.sums.high[i], logs.sums.low[i]);
    for (int r = lane; t.has_gram && r < Shape::steps; r += 32)
      logs.to_step[row / 16][r] =
          r < row ? 0.0F : factors[r] * from_last(logs.step_high[r], logs.step_low[r]);
#pragma unroll
    for (int n = 0; n < near_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = min(8 * (first_near + n), Shape::steps - 8) + lane_column() + i % 2;
        near_tokens[n][i] = token < rows.token[i / 2]
                                ? 0.0F
                                : rows.scale[i / 2] * decay_to(logs.sums.high, logs.sums.low, token, i / 2);
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
                : -rows.factor[i / 2] * factors[r] * decay_to(logs.step_high, logs.step_low, r, i / 2);
      }
    }
    __syncwarp();
  }
};

/// Products of the warp's keys with queries and with keys.
template <class Shape>
__device__ __forceinline__ void multiply_keys(const GatherThread<Shape>& t,
                                              Rows<Shape::padded_tokens / 8>& key_query,
                                              Rows<Shape::steps / 8>& key_key) {
  using Products = typename GatherThread<Shape>::Products;
  key_query.set_zero();
  key_key.set_zero();
#pragma unroll
  for (int k = 0; k < Shape::padded_key; k += 64) {
    typename Shape::Product::Left of_keys[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) of_keys[i] = t.keys.left(t.row, k + 16 * i);
    Products::fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (t.multiplies_scores)
        Products::template with_rows<Shape::padded_tokens, true>(key_query.tile, of_keys[i], t.queries, 0,
                                                                 k + 16 * i);
      if (t.multiplies_gram)
        Products::template with_rows<Shape::steps, true>(key_key.tile, of_keys[i], t.keys, 0, k + 16 * i);
    }
    Products::commit();
    Products::template wait<0>(key_query, key_key);
  }
}

/// X^T becomes dP^T. Adds to what step sizes and decays of the lane's rows get; decays count between a row
/// and the tokens after its own.
template <class Shape>
__device__ __forceinline__ void through_scores(const GatherThread<Shape>& t, const GatherRows& rows,
                                               const GatherWeights<Shape>& all_weights,
                                               const Rows<Shape::padded_tokens / 8>& key_query,
                                               Rows<Shape::padded_tokens / 8>& scores, float (&of_beta)[2],
                                               float (&of_log)[2]) {
  using Product = typename Shape::Product;
  constexpr int token_tiles = Shape::padded_tokens / 8;
  float column_logs[2 * token_tiles] = {};
#pragma unroll
  for (int j = 0; j < token_tiles; ++j) {
    float weights[4];
    all_weights.of_tokens(j, weights);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int to = 8 * j + lane_column() + i % 2;
      float& d = scores.tile[j][i];
      const float x = weights[i] * d;
      d = rows.beta[i / 2] * x;
      of_beta[i / 2] += x * key_query.tile[j][i];
      if (Shape::decays && to > rows.token[i / 2]) {
        const float log = d * key_query.tile[j][i];
        of_log[i / 2] += log;
        column_logs[2 * j + i % 2] += log;
      }
    }
  }
  if (Shape::decays) sum_columns<token_tiles>(column_logs, t.logs.token[t.row / 16]);
#pragma unroll
  for (int j = 0; j < token_tiles; j += 2)
    t.d_scores.store(Product::left(scores.tile[j], scores.tile[j + 1]), t.row, 8 * j);
}

/// M^T becomes G^T. Adds likewise; decays count between a row and those of later tokens.
template <class Shape>
__device__ __forceinline__ void through_coupling(const GatherThread<Shape>& t, const GatherRows& rows,
                                                 const GatherWeights<Shape>& all_weights,
                                                 const Rows<Shape::steps / 8>& key_key,
                                                 Rows<Shape::steps / 8>& gram, float (&of_beta)[2],
                                                 float (&of_log)[2]) {
  using Product = typename Shape::Product;
  constexpr int step_tiles = Shape::steps / 8;
  float column_logs[2 * step_tiles] = {};
#pragma unroll
  for (int j = 0; j < step_tiles; ++j) {
    float weights[4];
    all_weights.of_steps(j, weights);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int to = 8 * j + lane_column() + i % 2;
      float& d = gram.tile[j][i];
      const float x = weights[i] * d;
      d = rows.beta[i / 2] * x;
      of_beta[i / 2] += x * key_key.tile[j][i];
      if (Shape::decays && to >= rows.later_row[i / 2]) {
        const float log = d * key_key.tile[j][i];
        of_log[i / 2] += log;
        column_logs[2 * j + i % 2] += log;
      }
    }
  }
  if (Shape::decays) sum_columns<step_tiles>(column_logs, t.logs.step[t.row / 16]);
#pragma unroll
  for (int j = 0; j < step_tiles; j += 2)
    t.d_gram.store(Product::left(gram.tile[j], gram.tile[j + 1]), t.row, 8 * j);
}

/// Reads the lane's rows, and multiplies them in d_key, dS err, by beta and the decay to the chunk's end.
template <class Shape, int tiles>
__device__ __forceinline__ void start_rows(const GatherThread<Shape>& t, const GatherRows& rows,
                                           Rows<tiles>& d_key) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = t.row + lane_row() + 8 * i;
    rows.beta[i] = t.sums.betas[r];
    rows.factor[i] = t.sums.factors[r];
    rows.token[i] = t.group.token_of(r);
    if (Shape::decays) {
      rows.high[i] = t.logs.step_high[r], rows.low[i] = t.logs.step_low[r];
      rows.later_row[i] = t.group.row_of(rows.token[i] + 1);
    }
    const float end = rows.beta[i] * t.end_of(r);
#pragma unroll
    for (auto& tile : d_key.tile) tile[2 * i] *= end, tile[2 * i + 1] *= end;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) rows.scale[i] = t.a.scale * rows.factor[i];
}

/// Step 2. `scores` and `gram` have X^T and M^T, and d_key has dS err.
template <class Shape, int tiles>
__device__ __forceinline__ void gather_scores(const GatherThread<Shape>& t, Rows<tiles>& d_key,
                                              Rows<Shape::padded_tokens / 8>& scores,
                                              Rows<Shape::steps / 8>& gram) {
  row_dots(d_key, t.keys, t.row, t.column, t.sums.end_dot[t.part]);
  float beta[2], factor[2], scale[2], high[2], low[2], of_beta[2] = {}, of_log[2] = {};
  int token[2], later_row[2];
  const GatherRows rows{beta, factor, scale, high, low, token, later_row};
  start_rows(t, rows, d_key);
  using Weights = GatherWeights<Shape>;
  const int first_token = t.group.token_of(t.row);
  float near_tokens[Weights::near_tiles][4], near_steps[2][4], to_last[2];
  const Weights weights{t, rows, near_tokens, near_steps, to_last, first_token, first_token / 8};
  if constexpr (Shape::decays) weights.find_decays();
  Rows<Shape::padded_tokens / 8> key_query;
  Rows<Shape::steps / 8> key_key;
  multiply_keys(t, key_query, key_key);
  if (t.has_scores) through_scores(t, rows, weights, key_query, scores, of_beta, of_log);
  if (t.has_gram) through_coupling(t, rows, weights, key_key, gram, of_beta, of_log);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = t.row + lane_row() + 8 * i;
    const float d_beta = sum_over_lanes(of_beta[i], row_lanes),
                log = Shape::decays ? sum_over_lanes(of_log[i], row_lanes) : 0.0F;
    if (lane_column() == 0) t.sums.beta[t.part][r] = d_beta;
    if (Shape::decays && lane_column() == 0) t.logs.row[t.part][r] = log;
  }
}

}  // namespace orthornn::cuda
