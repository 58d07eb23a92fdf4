#include <algorithm>
#include <iterator>

#include "cuda/core/launch.hpp"
#include "cuda/products/large_clusters.hpp"
#include "cuda/rollouts/given_gradients.hpp"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "cuda/rollouts/persistent/persistent_rollout.cuh"
#include "cuda/rollouts/persistent/word_exchange.cuh"

namespace orthornn::cuda {
namespace {

// A step takes less than device memory does.
constexpr int steps_ahead = 4;

/// A kernel that carries a sequence over a cluster of so many blocks.
template <Direction direction, class Tile, int Blocks>
struct SequenceKernel {
  using Exchange = WordExchange<Blocks, Tile::size / Blocks, 1, OwnedElements<Tile, 1>::copies>;
  static constexpr auto function = persistent_rollout<direction, Tile, Exchange, 1, 1, steps_ahead>;

  static LaunchShape shape_for(Index sequences) {
    return {.grid = static_cast<unsigned>(sequences) * Blocks,
            .block = Tile::threads(Exchange::rows),
            .shared = persistent_rollout_bytes<direction, Tile, Exchange, 1, 1, steps_ahead>,
            .cluster = Blocks};
  }
  static int sequences_at_a_time(Context& gpu) { return possible_clusters(gpu, function, shape_for(1)); }
};

/// Carries a sequence a cluster, if all of them can be carried at the same time, forward and backward: both
/// ways have the same operands, so that gradients are those of what was computed.
template <Direction direction, class Tile, int Blocks>
bool start(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  const int at_a_time = std::min(SequenceKernel<Direction::forward, Tile, Blocks>::sequences_at_a_time(gpu),
                                 SequenceKernel<Direction::backward, Tile, Blocks>::sequences_at_a_time(gpu));
  if (arguments.batch > at_a_time) return false;
  using Kernel = SequenceKernel<direction, Tile, Blocks>;
  launch(gpu, Kernel::function, Kernel::shape_for(arguments.batch), with_given_gradients(arguments), q);
  return true;
}

/// Half a warp shares four rows: up to N = 384 the sums over lanes take longer than reads.
template <int Size>
using HalfWarpTile = PersistentTile<16, Size / 16, 4>;

template <ClusterShape cluster>
using WarpTile = PersistentTile<ClusterShape::lanes, cluster.size / ClusterShape::lanes,
                                ClusterShape::warp_rows, cluster.kept>;

/// The smallest of one_sequence_clusters, from `number` on, that holds N.
template <Direction direction, std::size_t number = 0>
bool start_large(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  constexpr ClusterShape cluster = one_sequence_clusters[number];
  if (arguments.hidden_size <= cluster.size)
    return start<direction, WarpTile<cluster>, cluster.blocks>(gpu, arguments, q);
  if constexpr (number + 1 < std::size(one_sequence_clusters))
    return start_large<direction, number + 1>(gpu, arguments, q);
  return false;
}

template <Direction direction>
bool start_padded(const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  if (arguments.hidden_size <= 256) return start<direction, HalfWarpTile<256>, 8>(gpu, arguments, q);
  if (arguments.hidden_size <= 384) return start<direction, HalfWarpTile<384>, 8>(gpu, arguments, q);
  // Half as many multiply-adds a block save more than the way between more blocks costs.
  return start_large<direction>(gpu, arguments, q) ||
         (arguments.hidden_size <= 512 && start<direction, HalfWarpTile<512>, 8>(gpu, arguments, q));
}

}  // namespace

bool few_sequences_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q) {
  if (direction == Direction::forward) return start_padded<Direction::forward>(arguments, q);
  return start_padded<Direction::backward>(arguments, q);
}

}  // namespace orthornn::cuda
