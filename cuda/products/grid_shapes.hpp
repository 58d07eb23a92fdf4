#pragma once
// The blocks for which grid_rollout is compiled.

#include "orthornn/core/precision.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// Sets of sequences that a block carries at the same time.
inline constexpr int grid_sets = 2;

/// Warps that carry a set, each with its slice of the columns.
inline constexpr int grid_slices = 8;

/// Columns of a chunk, which a warp multiplies at a time.
constexpr int grid_chunk(int terms) { return terms == 1 ? 32 : 16; }

struct GridTiles {
  int rows;       ///< of 16 rows of the matrix
  int sequences;  ///< of 8 sequences, in a set

  constexpr int area() const { return rows * sequences; }
  /// Of the matrix: 16 bytes for each of 32 lanes, of each term, and of 16 rows and columns.
  constexpr Index chunk_bytes(int terms) const {
    return Index{16} * 32 * terms * rows * (grid_chunk(terms) / 16);
  }
  /// Of the sums that warps exchange for a set: four of a lane and a tile, of which each warp keeps an
  /// eighth.
  constexpr Index sum_bytes() const { return Index{4} * 4 * 32 * area() * (grid_slices - 1); }
};

inline constexpr GridTiles grid_shapes[] = {{2, 1}, {3, 1}, {4, 1}, {2, 2}, {3, 2}, {4, 2}, {2, 4}};

/// Whether there is a kernel for numbers of so many terms, `gates` rows of the matrix for each unit, and
/// `published` numbers of a unit. Blocks whose threads lack registers were slower, so there are none.
constexpr bool has_grid_kernel(const GridTiles& tiles, int terms, int gates, int published) {
  if (tiles.rows % gates != 0) return false;
  if (published > 1) return tiles.rows == 2 && tiles.area() <= 4;
  return terms < 3 || tiles.area() <= 6;
}

/// Terms of a number of the matrix and of the state (grid_operands.cuh).
constexpr int grid_terms(Precision precision) {
  return precision == Precision::fp32 ? 3 : precision == Precision::tf32 ? 2 : 1;
}

}  // namespace orthornn::cuda
