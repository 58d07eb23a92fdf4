#include <algorithm>

#include "cuda/core/launch.hpp"
#include "cuda/rollouts/given_gradients.hpp"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "cuda/rollouts/persistent/persistent_rollout.cuh"
#include "cuda/rollouts/persistent/word_exchange.cuh"

namespace orthornn::cuda {
namespace {

// Half a warp shares four rows: with few sequences a step waits for the sums over lanes more than for reads.
constexpr int lanes = 16, rows = 4;
// A step takes less than device memory does.
constexpr int steps_ahead = 4;

/// A kernel that carries up to Size units of a sequence over a cluster of so many blocks.
template <Direction direction, int Size, int Blocks>
struct SequenceKernel {
  using Tile = PersistentTile<lanes, Size / lanes, rows>;
  using Exchange = WordExchange<Blocks, Size / Blocks, 1, OwnedElements<Tile, 1>::copies>;
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
template <Direction direction, int Size, int Blocks>
bool start(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  const int at_a_time = std::min(SequenceKernel<Direction::forward, Size, Blocks>::sequences_at_a_time(gpu),
                                 SequenceKernel<Direction::backward, Size, Blocks>::sequences_at_a_time(gpu));
  if (arguments.batch > at_a_time) return false;
  using Kernel = SequenceKernel<direction, Size, Blocks>;
  launch(gpu, Kernel::function, Kernel::shape_for(arguments.batch), with_given_gradients(arguments), q);
  return true;
}

template <Direction direction>
bool start_padded(const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  if (arguments.hidden_size <= 256) return start<direction, 256, 8>(gpu, arguments, q);
  if (arguments.hidden_size <= 384) return start<direction, 384, 8>(gpu, arguments, q);
  // Half as many multiply-adds a block save more than the way between more blocks costs.
  return start<direction, 512, 16>(gpu, arguments, q) || start<direction, 512, 8>(gpu, arguments, q);
}

}  // namespace

bool few_sequences_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q) {
  if (direction == Direction::forward) return start_padded<Direction::forward>(arguments, q);
  return start_padded<Direction::backward>(arguments, q);
}

}  // namespace orthornn::cuda
