#pragma once

#include <optional>

#include "orthornn/core/device.hpp"
#include "orthornn/core/precision.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// A direction of a recurrence of B sequences and N units.
struct GridProblem {
  Device device;
  Index batch;        ///< B
  Index hidden_size;  ///< N
  Precision precision;
  int gates = 1;      ///< rows of the matrix for each unit
  int published = 1;  ///< numbers of a unit in a state, which the matrix has columns for
};

/// How grid_rollout divides it.
struct GridPlan {
  int terms;           ///< of a number
  int row_tiles;       ///< of 16 rows of the matrix, in a block
  int sequence_tiles;  ///< of 8 sequences, in a set
  int blocks;          ///< of a group
  int groups;
  int rounds;      ///< of two sets each, of a group
  int sequences;   ///< of a set
  int turns;       ///< launches, of groups * 2 * rounds * sequences each
  int chunks;      ///< of columns of the matrix
  int resident;    ///< chunks of a slice in shared memory
  double step_us;  ///< what a step is expected to take
};

/// Whether this build has the kernels.
bool has_grid_kernels();

/// The fastest one for a GPU; nullopt where its multiprocessors do not hold the rows.
std::optional<GridPlan> grid_plan(const GridProblem& problem);

}  // namespace orthornn::cuda
