#pragma once
// Sums over rows and columns that a warp of gather_gradients.cuh has in registers, and how its rows leave.

#include "cuda/core/reduce_scatter.cuh"
#include "cuda/delta/chunk_geometry.cuh"

namespace orthornn::cuda {

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

}  // namespace orthornn::cuda
