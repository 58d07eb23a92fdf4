#pragma once
// What few_over_grid_rollout takes, and how long a step is.

#include <optional>

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// Rows of Q in a block, in the registers of its threads, each of which has some columns of all rows; and
/// sequences, of which a thread owns a unit of one.
inline constexpr int few_over_grid_rows = 16, few_over_grid_threads = 256,
                     few_over_grid_sequences = few_over_grid_threads / few_over_grid_rows;

/// The largest N for which it is compiled, and the largest for which threads have eight columns, not twelve.
inline constexpr Index largest_few_over_grid = 3072, largest_of_eight_columns = 2048;

/// Microseconds that a step is expected to take, forward and backward together; nullopt for N that a cluster
/// holds, or that the multiprocessors do not hold with a block each, and for more sequences.
std::optional<double> few_over_grid_us(Device device, Index batch, Index hidden_size);

}  // namespace orthornn::cuda
