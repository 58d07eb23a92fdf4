#pragma once
// Which of the kernels that carry different numbers of sequences together takes the least time.

#include <span>

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
};

/// Those of a block with so many rows of Q.
template <int Rows, int Columns, int Sequences>
inline constexpr int multiply_cycles = Rows* Columns* Sequences / 128;

/// Finds the kernel that takes the least time for a batch.
class FastestKernel {
 public:
  explicit FastestKernel(Index batch) : batch_(batch) {}

  /// Takes one of `kernels` if it is faster than those before. The GPU runs `at_a_time` of their blocks or
  /// clusters at the same time.
  void consider(std::span<const SequencesKernel> kernels, Index at_a_time) {
    for (const SequencesKernel& kernel : kernels) {
      const Index turns = (blocks_of(kernel) - 1) / at_a_time + 1;
      const Index cycles = turns * (waiting_cycles + kernel.multiply_cycles);
      if (fastest_ != nullptr && cycles_ <= cycles) continue;
      fastest_ = &kernel;
      cycles_ = cycles;
    }
  }
  /// Of those considered, of which there must be one.
  void start(const Context& gpu, const RolloutArguments<float>& arguments, const float* q) const {
    LaunchShape shape = fastest_->shape;
    shape.grid.x *= grid_size(blocks_of(*fastest_));
    launch(gpu, fastest_->function, shape, arguments, q);
  }

 private:
  /// What a step takes beside its multiply-adds. On an H200, one of fp32 over a cluster takes 0.87 us and 1.9
  /// ns for each cycle of multiply-adds, forward and backward together. In one multiprocessor it waits half
  /// as long, and the fastest kernel is the same (tools/bench-results/h200-sequences.csv).
  static constexpr Index waiting_cycles = 460;

  /// Blocks or clusters for the whole batch.
  Index blocks_of(const SequencesKernel& kernel) const { return (batch_ - 1) / kernel.sequences + 1; }

  Index batch_;
  const SequencesKernel* fastest_ = nullptr;
  Index cycles_ = 0;
};

}  // namespace orthornn::cuda
