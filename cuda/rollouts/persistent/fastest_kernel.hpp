#pragma once
// Which of the kernels that carry different numbers of sequences together takes the least time.

#include <span>

#include "cuda/rollouts/persistent/sequences_kernel.hpp"

namespace orthornn::cuda {

/// Finds the kernel that takes the least time for a batch.
class FastestKernel {
 public:
  explicit FastestKernel(Index batch) : batch_(batch) {}

  /// Takes one of `kernels` if it is faster than those before. The GPU runs `at_a_time` of their blocks or
  /// clusters at the same time.
  void consider(std::span<const SequencesKernel> kernels, Index at_a_time) {
    for (const SequencesKernel& kernel : kernels) {
      const Index turns = (kernel.count_for(batch_) - 1) / at_a_time + 1;
      const Index cycles = turns * (waiting_cycles + kernel.multiply_cycles);
      if (fastest_ != nullptr && cycles_ <= cycles) continue;
      fastest_ = &kernel;
      cycles_ = cycles;
    }
  }
  /// Of those considered, of which there must be one.
  const SequencesKernel& get() const { return *fastest_; }

 private:
  /// What a step takes beside its multiply-adds. On an H200, one of fp32 over a cluster takes 0.87 us and 1.9
  /// ns for each cycle of multiply-adds, forward and backward together. In one multiprocessor it waits half
  /// as long, and the fastest kernel is the same (tools/bench-results/h200-sequences.csv).
  static constexpr Index waiting_cycles = 460;

  Index batch_;
  const SequencesKernel* fastest_ = nullptr;
  Index cycles_ = 0;
};

}  // namespace orthornn::cuda
