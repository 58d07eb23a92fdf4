#pragma once
// Rollouts that are one kernel: Q stays on chip, and the loop over time is inside.

#include "cuda/products/grid_plan.hpp"
#include "cuda/products/on_chip.hpp"
#include "cuda/rollouts/rollout_arguments.hpp"
#include "orthornn/core/precision.hpp"

namespace orthornn::cuda {

/// From Q [N, N] in C order, for sizes that cuda/products/on_chip.hpp allows.
void resident_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q);
/// The same over clusters: fp32 multiplies by fused multiply-adds, tf32 and bf16 on tensor cores, with the
/// operands that Precision says. Few sequences, and tf32 above N = 512, go by fused multiply-adds too.
void cluster_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                     Precision precision);
/// The same over groups of the GPU's multiprocessors, which exchange the state through the L2 cache, as a
/// plan for these sizes says; on tensor cores in every precision.
void grid_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                  const GridPlan& plan);
/// The same for few sequences, by fused multiply-adds, for sizes that few_over_grid_us
/// (cuda/products/few_over_grid.hpp) has a time for.
void few_over_grid_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q);

}  // namespace orthornn::cuda
