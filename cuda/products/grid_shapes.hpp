#pragma once
// The blocks for which grid_rollout is compiled.

#include "orthornn/core/precision.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// Sets of sequences that a block carries at the same time.
inline constexpr int grid_sets = 2;

struct GridTiles {
  int rows;       ///< of 16 rows of the matrix
  int sequences;  ///< of 8 sequences, in a set

  constexpr int area() const { return rows * sequences; }
};

inline constexpr GridTiles grid_shapes[] = {{2, 1}, {3, 1}, {4, 1}, {2, 2}, {3, 2}, {4, 2}, {2, 4}};

/// Whether there is a kernel for numbers of so many terms, `gates` rows of the matrix for each unit, and
/// `published` numbers of a unit. Where a larger block has room for its registers, it is no faster.
constexpr bool has_grid_kernel(const GridTiles& tiles, int terms, int gates, int published) {
  return tiles.rows % gates == 0 && (published == 1 || (tiles.rows == 2 && tiles.area() <= 4)) && (terms < 3 || tiles.area() <= 6);
}

/// Terms of a number of the matrix and of the state (grid_operands.cuh).
constexpr int grid_terms(Precision precision) {
  return precision == Precision::fp32 ? 3 : precision == Precision::tf32 ? 2 : 1;
}

}  // namespace orthornn::cuda
