#include "cuda/products/grid_plan.hpp"

#include <algorithm>

#include "cuda/core/clusters.hpp"
#include "cuda/core/context.hpp"
#include "cuda/products/grid_shapes.hpp"

namespace orthornn::cuda {
namespace {

constexpr Index up(Index x, Index y) { return (x + y - 1) / y; }

GridPlan plan_of(const GridProblem& problem, const GridTiles& tiles, Index groups) {
  const int terms = grid_terms(problem.precision), chunk = grid_chunk(terms);
  const Index units = 16 * tiles.rows / problem.gates, blocks = up(problem.hidden_size, units);
  const Index of_group = up(problem.batch, groups), of_round = grid_sets * Index{8} * tiles.sequences;
  // The elements of gated recurrences carry more than their state through time, which rounds would forget.
  // The states of all rounds take memory at the same time, those of turns do not.
  const Index most_rounds = problem.gates > 1 || problem.published > 1 ? 1 : 4;
  const Index all_rounds = up(of_group, of_round), turns = up(all_rounds, most_rounds);
  const Index rounds = up(all_rounds, turns), sequences = up(of_group, grid_sets * rounds * turns);
  const Index columns = problem.published == 1 ? problem.hidden_size : problem.published * blocks * units;
  const Index chunks = up(columns, chunk), chunk_bytes = tiles.chunk_bytes(terms);
  const Index room = static_cast<Index>(cluster_shared_memory) - grid_sets * tiles.sum_bytes();
  const Index resident = std::min(room / (grid_slices * chunk_bytes), up(chunks, grid_slices));

  // Fitted to 130 rollouts on an H200, with an error of 10 % (tools/bench-results/h200.md).
  const double state_bytes = static_cast<double>(of_round * chunks * chunk * (terms == 1 ? 2 : 4));
  const double streamed_bytes =
      static_cast<double>(grid_sets * std::max<Index>(0, chunks - grid_slices * resident) * chunk_bytes);
  const double products =
      static_cast<double>(terms * (terms + 1) / 2 * tiles.area() * chunks * chunk / 16 * grid_sets);
  const double round_us = 2.07 + 1.29e-5 * state_bytes + 0.91e-5 * streamed_bytes + 1.08e-3 * products +
                          0.059 * static_cast<double>(terms * tiles.area());
  return {.terms = terms,
          .row_tiles = tiles.rows,
          .sequence_tiles = tiles.sequences,
          .blocks = static_cast<int>(blocks),
          .groups = static_cast<int>(up(problem.batch, grid_sets * rounds * turns * sequences)),
          .rounds = static_cast<int>(rounds),
          .sequences = static_cast<int>(sequences),
          .turns = static_cast<int>(turns),
          .chunks = static_cast<int>(chunks),
          .resident = static_cast<int>(resident),
          .step_us = static_cast<double>(rounds * turns) * round_us};
}

}  // namespace

bool has_grid_kernels() {
#ifdef ORTHORNN_EMULATED_CUDA
  return false;
#else
  return true;
#endif
}

std::optional<GridPlan> grid_plan(const GridProblem& problem) {
  if (!has_grid_kernels()) return std::nullopt;
  const Index multiprocessors = context(problem.device).multiprocessors();
  std::optional<GridPlan> best;
  for (const GridTiles& tiles : grid_shapes) {
    if (!has_grid_kernel(tiles, grid_terms(problem.precision), problem.gates, problem.published)) continue;
    const Index blocks = up(problem.hidden_size, 16 * tiles.rows / problem.gates);
    const Index most_groups = std::min(multiprocessors / blocks, up(problem.batch, 8));
    for (Index groups = 1; groups <= most_groups; ++groups) {
      const GridPlan plan = plan_of(problem, tiles, groups);
      if (!best || plan.step_us < best->step_us) best = plan;
    }
  }
  return best;
}

}  // namespace orthornn::cuda
