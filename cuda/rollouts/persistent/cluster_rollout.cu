#include <algorithm>

#include "cuda/core/launch.hpp"
#include "cuda/rollouts/given_gradients.hpp"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "cuda/rollouts/persistent/octet_exchange.cuh"
#include "cuda/rollouts/persistent/persistent_rollout.cuh"
#include "cuda/rollouts/persistent/persistent_rollout.hpp"

namespace orthornn::cuda {
namespace {

// A warp shares eight rows.
constexpr int lanes = 32;
// A step takes longer than device memory does.
constexpr int steps_ahead = 2;

/// A kernel that carries `sequences` over a cluster.
struct ClusterKernel {
  void (*function)(RolloutArguments<float>, const float*);
  LaunchShape of_cluster;
  int sequences;

  /// How often the GPU must be filled for so many sequences.
  Index turns(Context& gpu, Index batch) const {
    const Index clusters = (batch - 1) / sequences + 1;
    return (clusters - 1) / active_clusters(gpu, function, of_cluster) + 1;
  }
};

/// Up to Size units over clusters of `Blocks`, for `Groups` times `Group` sequences.
template <Direction direction, int Size, int Blocks, int Group, int Groups = 1>
ClusterKernel kernel() {
  using Tile = PersistentTile<lanes, Size / lanes>;
  using Exchange = SequenceExchange<Blocks, Size / Blocks, Group>;
  constexpr int threads = Tile::threads(Exchange::rows);
  static_assert(threads / warp_size * 8 == Exchange::rows, "a warp has the rows that it sends");
  return {persistent_rollout<direction, Tile, Exchange, Group, Groups, steps_ahead>,
          {.grid = Blocks,
           .block = threads,
           .shared = persistent_rollout_bytes<direction, Tile, Exchange, Group, Groups, steps_ahead>,
           .cluster = Blocks},
          Group * Groups};
}

/// As few sequences a cluster as can be carried in the fewest turns: their multiplications are what a step
/// takes. One group where registers have room for the sums of all its sequences: each waits for an exchange
/// of its own. The list begins with two sequences: few_sequences_rollout carries one.
template <Direction direction, int Size, int Blocks>
void start_smallest(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  static const ClusterKernel kernels[] = {
      kernel<direction, Size, Blocks, 2>(),   kernel<direction, Size, Blocks, 4>(),
      kernel<direction, Size, Blocks, 5>(),   kernel<direction, Size, Blocks, 6>(),
      kernel<direction, Size, Blocks, 9>(),   kernel<direction, Size, Blocks, 4, 3>(),
      kernel<direction, Size, Blocks, 8, 2>()};
  const ClusterKernel& smallest = *std::ranges::min_element(
      kernels, {}, [&](const ClusterKernel& k) { return k.turns(gpu, arguments.batch); });
  LaunchShape shape = smallest.of_cluster;
  shape.grid.x *= blocks_for(arguments.batch, smallest.sequences);
  launch(gpu, smallest.function, shape, arguments, q);
}

template <Direction direction>
void start_padded(const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  if (arguments.hidden_size <= 256) return start_smallest<direction, 256, 2>(gpu, arguments, q);
  if (arguments.hidden_size <= 320) return start_smallest<direction, 320, 4>(gpu, arguments, q);
  if (arguments.hidden_size <= 384) return start_smallest<direction, 384, 4>(gpu, arguments, q);
  if (arguments.hidden_size <= 448) return start_smallest<direction, 448, 8>(gpu, arguments, q);
  start_smallest<direction, 512, 8>(gpu, arguments, q);
}

}  // namespace

void fused_multiply_add_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                        const float* q) {
  if (direction == Direction::forward) return start_padded<Direction::forward>(arguments, q);
  start_padded<Direction::backward>(with_given_gradients(arguments), q);
}

void cluster_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                     Precision precision) {
  if (arguments.hidden_size <= largest_cluster_size(Precision::fp32) &&
      few_sequences_rollout(direction, arguments, q)) {
    return;
  }
  if (precision == Precision::fp32) return fused_multiply_add_cluster_rollout(direction, arguments, q);
  tensor_core_cluster_rollout(direction, arguments, q, precision);
}

}  // namespace orthornn::cuda
