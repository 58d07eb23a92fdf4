#pragma once

#include "cuda/core/launch.hpp"
#include "cuda/rollouts/rollout_arguments.hpp"

namespace orthornn::cuda {

/// A rollout that keeps Q on a block, or on a cluster of blocks, which carries `sequences` of them.
struct SequencesKernel {
  void (*function)(RolloutArguments<float>, const float*);
  /// Of one block or cluster.
  LaunchShape shape;
  int sequences;
  /// Cycles in which a multiprocessor makes the multiply-adds of a step.
  int multiply_cycles;

  /// Blocks or clusters for a batch.
  Index count_for(Index batch) const { return (batch - 1) / sequences + 1; }
  void start(const Context& gpu, const RolloutArguments<float>& arguments, const float* q) const {
    LaunchShape whole = shape;
    whole.grid.x *= grid_size(count_for(arguments.batch));
    launch(gpu, function, whole, arguments, q);
  }
};

/// Those of a block with so many rows of Q.
template <int Rows, int Columns, int Sequences>
inline constexpr int multiply_cycles = Rows* Columns* Sequences / 128;

}  // namespace orthornn::cuda
