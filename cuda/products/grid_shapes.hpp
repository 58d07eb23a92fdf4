#pragma once
// The blocks for which grid_rollout is compiled.

#include "orthornn/core/precision.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// Warps that carry a set of sequences, each with its slice of the columns.
inline constexpr int grid_slices = 8;

/// Columns of a chunk, which a warp multiplies at a time.
constexpr int grid_chunk(int terms) { return terms == 1 ? 32 : 16; }

struct GridTiles {
  int rows;       ///< of 16 rows of the matrix
  int sequences;  ///< of 8 sequences, in a set
  int sets;       ///< of sequences, which a block carries at the same time: one or two

  constexpr bool operator==(const GridTiles&) const = default;
  constexpr int area() const { return rows * sequences; }
  /// Of the matrix: 16 bytes for each of 32 lanes, of each term, and of 16 rows and columns.
  constexpr Index chunk_bytes(int terms) const {
    return Index{16} * 32 * terms * rows * (grid_chunk(terms) / 16);
  }
  /// Of the sums that warps exchange for a set: four of a lane and a tile, of which each warp keeps an
  /// eighth.
  constexpr Index sum_bytes() const { return Index{4} * 4 * 32 * area() * (grid_slices - 1); }
};

/// Two sets hide a part of each other's exchange. One set has twice the registers: up to 16 sequences have
/// twice as much of the state on the way, and more sequences have room.
inline constexpr GridTiles grid_shapes[] = {{2, 1, 2}, {3, 1, 2}, {4, 1, 2}, {2, 2, 2}, {3, 2, 2},
                                            {4, 2, 2}, {2, 4, 2}, {2, 2, 1}, {3, 2, 1}, {4, 2, 1},
                                            {2, 4, 1}, {3, 4, 1}, {2, 6, 1}, {2, 8, 1}};

/// Whether there is a kernel for numbers of so many terms, `gates` rows of the matrix for each unit, and
/// `published` numbers of a unit: about those that were the fastest by more than 3 % for any of 308 problems
/// on an H200 (tools/bench-results/h200.md, "One set, and products made once", and "48 and 64 sequences a
/// block").
constexpr bool has_grid_kernel(const GridTiles& tiles, int terms, int gates, int published) {
  const bool one_set = tiles.sets == 1, small = tiles.area() <= 4;
  if (tiles.rows % gates != 0) return false;
  if (tiles.sequences > 4) {
    return gates == 1 && published == 1 && (tiles.sequences == 6 ? terms > 1 : terms < 3);
  }
  if (gates > 1) return tiles.sequences == 2 && (one_set || terms < 3);
  if (published > 1) return tiles.rows == 2 && (one_set ? small || terms > 1 : small && terms == 1);
  if (tiles.rows == 4) return small && terms == 1;
  if (one_set) return tiles.area() <= 8 || terms == 1;
  return small || (tiles.rows == 2 && terms == 1) || (tiles.rows == 3 && terms == 2);
}

/// Terms of a number of the matrix and of the state (grid_operands.cuh).
constexpr int grid_terms(Precision precision) {
  return precision == Precision::fp32 ? 3 : precision == Precision::tf32 ? 2 : 1;
}

}  // namespace orthornn::cuda
