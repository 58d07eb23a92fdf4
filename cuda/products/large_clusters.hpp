#pragma once
// The clusters for which the recurrence is compiled in fp32 above N = 512, and which of them a batch takes.
// Those of one sequence are taken from N = 385 on.

#include <optional>

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// The blocks of a cluster and what it carries. A warp has eight rows of Q.
struct ClusterShape {
  int size;    ///< N at most
  int blocks;  ///< that hold Q, each on a multiprocessor of its own
  int rows;    ///< of Q in a block
  int kept;    ///< columns of Q that a thread has in registers; the others are in shared memory
  int group;   ///< sequences whose states are exchanged together
  int groups = 1;

  static constexpr int lanes = 32, warp_rows = 8;

  constexpr int sequences() const { return group * groups; }
  /// Microseconds of a step, forward and backward together. Fitted to these shapes on an H200, with an error
  /// of 6 % in root mean square (tools/bench-results/h200-large-clusters.csv).
  constexpr double step_us() const {
    // A multiprocessor has four schedulers, and waits for those that have a warp more than others.
    constexpr int turn = 4 * warp_rows;
    const int longest = (rows + turn - 1) / turn * turn;
    const double multiply_cycles = static_cast<double>(longest) * size * sequences() / 128;
    // A second group reads while the first one's state is on the way.
    const double shared_cycles = static_cast<double>(rows) * (size - kept * lanes) / 32;
    return 0.90 + 1.6e-3 * multiply_cycles + 1.15e-3 * shared_cycles;
  }
};

/// Those that carry one sequence each. They are taken for a batch that the GPU carries at the same time.
inline constexpr ClusterShape one_sequence_clusters[] = {{512, 16, 32, 16, 1},
                                                         {640, 16, 40, 20, 1},
                                                         {768, 16, 48, 24, 1},
                                                         {896, 16, 56, 24, 1},
                                                         {1024, 16, 64, 24, 1}};

/// Those that carry more. In a cluster of more blocks a step takes less time, but the GPU runs fewer of them
/// at the same time.
inline constexpr ClusterShape large_clusters[] = {
    // Sixteen blocks.
    {640, 16, 40, 20, 2},
    {640, 16, 40, 20, 3},
    {640, 16, 40, 20, 4},
    {768, 16, 48, 20, 2},
    {768, 16, 48, 20, 3},
    {768, 16, 48, 20, 4},
    {896, 16, 56, 20, 2},
    {896, 16, 56, 20, 3},
    {896, 16, 56, 16, 4},
    {896, 16, 56, 16, 6},
    {1024, 16, 64, 20, 2},
    {1024, 16, 64, 16, 3},
    {1024, 16, 64, 16, 4},
    {1024, 16, 64, 16, 6},
    // Six to eight.
    {576, 6, 96, 12, 2},
    {576, 6, 96, 12, 3},
    {576, 6, 96, 10, 4},
    {576, 6, 96, 8, 5},
    {576, 6, 96, 6, 6},
    {576, 6, 96, 10, 4, 2},
    {640, 7, 96, 12, 2},
    {640, 7, 96, 12, 3},
    {640, 7, 96, 8, 4},
    {640, 7, 96, 8, 5},
    {640, 7, 96, 8, 3, 2},
    {640, 7, 96, 8, 4, 2},
    {768, 8, 96, 12, 2},
    {768, 8, 96, 12, 3},
    {768, 8, 96, 10, 4}};

/// How large_clusters carry a batch.
struct LargeClusterPlan {
  const ClusterShape* shape;
  double step_us;  ///< what a step of the batch is expected to take, forward and backward together
};

/// The one whose step is expected to be shortest; nullopt where no cluster of the GPU holds N.
std::optional<LargeClusterPlan> large_cluster_plan(Device device, Index batch, Index hidden_size);

/// What a step of the batch is expected to take, forward and backward together, by that plan or with
/// one_sequence_clusters; nullopt where no cluster of the GPU holds N.
std::optional<double> large_cluster_us(Device device, Index batch, Index hidden_size);

}  // namespace orthornn::cuda
