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

/// Carries a sequence a cluster, if all of them can be carried at the same time.
template <Direction direction, int Size, int Blocks>
bool start(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  using Tile = PersistentTile<lanes, Size / lanes, rows>;
  using Exchange = WordExchange<Blocks, Size / Blocks, 1, OwnedElements<Tile, 1>::copies>;
  const auto function = persistent_rollout<direction, Tile, Exchange, 1, 1, steps_ahead>;
  LaunchShape shape{.grid = Blocks,
                    .block = Tile::threads(Exchange::rows),
                    .shared = persistent_rollout_bytes<direction, Tile, Exchange, 1, 1, steps_ahead>,
                    .cluster = Blocks};
  if (arguments.batch > possible_clusters(gpu, function, shape)) return false;
  shape.grid.x *= static_cast<unsigned>(arguments.batch);
  launch(gpu, function, shape, with_given_gradients(arguments), q);
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
