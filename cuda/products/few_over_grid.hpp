#pragma once
// What few_over_grid_rollout takes, and how long a step is.

#include <optional>

#include "cuda/products/on_chip.hpp"
#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// What a block of 256 threads has of Q, in the registers of its threads: each has some columns of all rows.
struct RowBlock {
  int rows;
  int size;  ///< N at most

  static constexpr int threads = 256;

  constexpr bool operator==(const RowBlock&) const = default;
  /// Of which a thread owns a unit of one.
  constexpr int most_sequences() const { return threads / rows; }
};

inline constexpr RowBlock row_blocks[] = {{16, 2048}, {16, 3072}};

/// The block for N units over so many multiprocessors, each with one; nullopt where there is none: for N that
/// a cluster holds, and for larger ones.
constexpr std::optional<RowBlock> row_block(Index hidden_size, Index multiprocessors) {
  for (const RowBlock& block : row_blocks) {
    if (hidden_size > largest_cluster_size && hidden_size <= block.size &&
        hidden_size <= block.rows * multiprocessors)
      return block;
  }
  return std::nullopt;
}

/// Microseconds that a step is expected to take, forward and backward together; nullopt where there is no
/// block, and for more sequences.
std::optional<double> few_over_grid_us(Device device, Index batch, Index hidden_size);

}  // namespace orthornn::cuda
