#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "cuda/products/grid_shapes.hpp"
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

/// The problem of the other direction, whose matrix is the transpose.
inline GridProblem transposed(GridProblem problem) {
  std::swap(problem.gates, problem.published);
  return problem;
}

/// How grid_rollout divides it.
struct GridPlan {
  int terms;        ///< of a number
  GridTiles tiles;  ///< of a block
  int blocks;       ///< of a group
  int groups;
  int rounds;      ///< of as many sets as a block carries at the same time
  int sequences;   ///< of a set
  int turns;       ///< launches, of groups * sets * rounds * sequences each
  int chunks;      ///< of columns of the matrix
  int resident;    ///< chunks of a slice in shared memory
  double step_us;  ///< what a step is expected to take
};

/// Whether this build has the kernels.
bool has_grid_kernels();

/// All plans for a GPU, for tests: of one kernel after another, with more and more groups. None where its
/// multiprocessors do not hold the rows, or where this build has no kernels.
std::vector<GridPlan> grid_plans(const GridProblem& problem);

/// The one whose step is expected to be shortest; nullopt where there is none.
std::optional<GridPlan> grid_plan(const GridProblem& problem);

}  // namespace orthornn::cuda
