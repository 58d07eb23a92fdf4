#include "cuda/core/launch.hpp"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "cuda/rollouts/persistent/persistent_rollout.cuh"
#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "cuda/rollouts/persistent/state_exchange.cuh"

namespace orthornn::cuda {
namespace {

// A warp shares eight rows, and a block has 64: 256 threads with N / 4 weights each.
constexpr int lanes = 32;
// A step takes longer than device memory does.
constexpr int steps_ahead = 2;

/// Starts `kernel` for `sequences` at a time over clusters of `blocks`, and says true; or says false when
/// that would take several turns and `insist` is false.
bool start_in_one_turn(Context& gpu, void (*kernel)(RolloutArguments<float>, const float*), unsigned blocks,
                       unsigned threads, std::size_t shared, int sequences, bool insist,
                       const RolloutArguments<float>& arguments, const float* q) {
  const unsigned clusters = blocks_for(arguments.batch, sequences);
  const LaunchShape shape{.grid = clusters * blocks, .block = threads, .shared = shared, .cluster = blocks};
  if (static_cast<int>(clusters) > active_clusters(gpu, kernel, shape) && !insist) return false;
  launch(gpu, kernel, shape, arguments, q);
  return true;
}

template <Direction direction, int Blocks, int Group, int Groups, bool insist = false>
bool start(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  using Tile = PersistentTile<lanes, 2 * Blocks>;
  using Exchange = ClusterExchange<float, Blocks, 64, Group>;
  constexpr int threads = Tile::threads(Exchange::rows);
  return start_in_one_turn(gpu, persistent_rollout<direction, Tile, Exchange, Group, Groups, steps_ahead>,
                           Blocks, threads,
                           persistent_rollout_bytes<direction, Exchange, Groups, steps_ahead, threads>,
                           Group * Groups, insist, arguments, q);
}

/// As few sequences a cluster as all can be carried with at the same time: their multiplications are what a
/// step takes. Two groups where there can be: one travels while the other is multiplied.
template <Direction direction, int Blocks>
void start_smallest(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  start<direction, Blocks, 1, 1>(gpu, arguments, q) || start<direction, Blocks, 1, 2>(gpu, arguments, q) ||
      start<direction, Blocks, 2, 2>(gpu, arguments, q) ||
      start<direction, Blocks, 3, 2>(gpu, arguments, q) ||
      start<direction, Blocks, 3, 3>(gpu, arguments, q) ||
      start<direction, Blocks, 4, 3>(gpu, arguments, q) ||
      start<direction, Blocks, 4, 4, true>(gpu, arguments, q);
}

template <Direction direction>
void start_padded(const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  if (arguments.hidden_size <= 256) return start_smallest<direction, 4>(gpu, arguments, q);
  if (arguments.hidden_size <= 384) return start_smallest<direction, 6>(gpu, arguments, q);
  start_smallest<direction, 8>(gpu, arguments, q);
}

}  // namespace

void fused_multiply_add_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                        const float* q) {
  if (direction == Direction::forward) return start_padded<Direction::forward>(arguments, q);
  start_padded<Direction::backward>(arguments, q);
}

void cluster_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                     Precision precision) {
  if (precision == Precision::fp32) return fused_multiply_add_cluster_rollout(direction, arguments, q);
  tensor_core_cluster_rollout(direction, arguments, q, precision);
}

}  // namespace orthornn::cuda
