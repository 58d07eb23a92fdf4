#include "cuda/products/grid_plan.hpp"

#include <algorithm>

#include "cuda/core/clusters.hpp"
#include "cuda/core/context.hpp"

namespace orthornn::cuda {
namespace {

constexpr Index up(Index x, Index y) { return (x + y - 1) / y; }

/// Microseconds of a step. Fitted to 2,478 times below 15 us on an H200, with an error of 8 % in root mean
/// square (tools/bench-results/h200-grid-plans.csv).
struct StepCosts {
  double message;        ///< what a step takes without the others
  double streamed_byte;  ///< of the matrix, read by a block from the L2 cache
  double product[3];     ///< mma.sync of a block and the loads for it, for numbers of 1, 2 and 3 terms
  double gates;          ///< the pointwise part of a gated recurrence
};
constexpr StepCosts one_set{1.84, 3.83e-6, {2.84e-3, 1.89e-3, 1.73e-3}, 0.438};
constexpr StepCosts two_sets{1.61, 5.37e-6, {3.07e-3, 1.92e-3, 1.77e-3}, 0.614};

GridPlan plan_of(const GridProblem& problem, const GridTiles& tiles, Index groups) {
  const int terms = grid_terms(problem.precision), chunk = grid_chunk(terms);
  const Index units = 16 * tiles.rows / problem.gates, blocks = up(problem.hidden_size, units);
  const Index of_group = up(problem.batch, groups), of_round = Index{8} * tiles.sequences * tiles.sets;
  // The elements of gated recurrences carry more than their state through time, which rounds would forget.
  // The states of all rounds take memory at the same time, those of turns do not.
  const Index most_rounds = problem.gates > 1 || problem.published > 1 ? 1 : 4;
  const Index all_rounds = up(of_group, of_round), turns = up(all_rounds, most_rounds);
  const Index rounds = up(all_rounds, turns), sequences = up(of_group, tiles.sets * rounds * turns);
  const Index columns = problem.published == 1 ? problem.hidden_size : problem.published * blocks * units;
  const Index chunks = up(columns, chunk), chunk_bytes = tiles.chunk_bytes(terms);
  const Index room = static_cast<Index>(cluster_shared_memory) - tiles.sets * tiles.sum_bytes();
  const Index resident = std::min(room / (grid_slices * chunk_bytes), up(chunks, grid_slices));

  const double streamed_bytes =
      static_cast<double>(tiles.sets * std::max<Index>(0, chunks - grid_slices * resident) * chunk_bytes);
  const double products =
      static_cast<double>(terms * (terms + 1) / 2 * tiles.area() * chunks * chunk / 16 * tiles.sets);
  const bool gated = problem.gates > 1 || problem.published > 1;
  const StepCosts& us = tiles.sets == 1 ? one_set : two_sets;
  const double round_us = us.message + us.streamed_byte * streamed_bytes + us.product[terms - 1] * products +
                          (gated ? us.gates : 0);
  return {.terms = terms,
          .tiles = tiles,
          .blocks = static_cast<int>(blocks),
          .groups = static_cast<int>(up(problem.batch, tiles.sets * rounds * turns * sequences)),
          .rounds = static_cast<int>(rounds),
          .sequences = static_cast<int>(sequences),
          .turns = static_cast<int>(turns),
          .chunks = static_cast<int>(chunks),
          .resident = static_cast<int>(resident),
          .step_us = static_cast<double>(rounds * turns) * round_us};
}

/// Calls body(plan): one kernel after another, with more and more groups.
template <class Body>
void for_each_plan(const GridProblem& problem, const Body& body) {
  if (!has_grid_kernels()) return;
  const Index multiprocessors = context(problem.device).multiprocessors();
  for (const GridTiles& tiles : grid_shapes) {
    if (!has_grid_kernel(tiles, grid_terms(problem.precision), problem.gates, problem.published)) continue;
    const Index blocks = up(problem.hidden_size, 16 * tiles.rows / problem.gates);
    const Index most_groups = std::min(multiprocessors / blocks, up(problem.batch, 8));
    for (Index groups = 1; groups <= most_groups; ++groups) body(plan_of(problem, tiles, groups));
  }
}

}  // namespace

bool has_grid_kernels() {
#ifdef ORTHORNN_EMULATED_CUDA
  return false;
#else
  return true;
#endif
}

std::vector<GridPlan> grid_plans(const GridProblem& problem) {
  std::vector<GridPlan> plans;
  for_each_plan(problem, [&](const GridPlan& plan) { plans.push_back(plan); });
  return plans;
}

std::optional<GridPlan> grid_plan(const GridProblem& problem) {
  std::optional<GridPlan> fastest;
  for_each_plan(problem, [&](const GridPlan& plan) {
    if (!fastest || plan.step_us < fastest->step_us) fastest = plan;
  });
  return fastest;
}

}  // namespace orthornn::cuda
