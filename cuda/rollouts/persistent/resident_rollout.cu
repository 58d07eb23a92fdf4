#include "cuda/core/launch.hpp"
#include "cuda/rollouts/given_gradients.hpp"
#include "cuda/rollouts/persistent/persistent_rollout.cuh"
#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "cuda/rollouts/persistent/state_exchange.cuh"

namespace orthornn::cuda {
namespace {

// Half a warp shares eight rows: N / 16 columns a thread, 2 N threads. At N = 192 these are 96 weights in
// each of 384 threads.
constexpr int lanes = 16;
// A step takes half a microsecond, device memory up to a whole one.
constexpr int steps_ahead = 4;

template <Direction direction, int Columns, int Sequences>
void start(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  using Tile = PersistentTile<lanes, Columns>;
  using Exchange = BlockExchange<Tile::size, Sequences>;
  constexpr int threads = Tile::threads(Exchange::rows);
  launch(gpu, persistent_rollout<direction, Tile, Exchange, Sequences, 1, steps_ahead>,
         {.grid = blocks_for(arguments.batch, Sequences),
          .block = threads,
          .shared = persistent_rollout_bytes<direction, Tile, Exchange, Sequences, 1, steps_ahead>},
         arguments, q);
}

/// The smallest size of `Columns` and more that holds N.
template <Direction direction, int Columns = 4>
void start_padded(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  if constexpr (Columns * lanes < largest_resident_size) {
    if (arguments.hidden_size > Columns * lanes)
      return start_padded<direction, Columns + 2>(gpu, arguments, q);
  }
  // One sequence a multiprocessor while they last: a second one costs its multiplications, but no more
  // waiting.
  if (arguments.batch <= gpu.multiprocessors()) return start<direction, Columns, 1>(gpu, arguments, q);
  start<direction, Columns, 2>(gpu, arguments, q);
}

}  // namespace

void resident_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  if (direction == Direction::forward) return start_padded<Direction::forward>(gpu, arguments, q);
  start_padded<Direction::backward>(gpu, with_given_gradients(arguments), q);
}

}  // namespace orthornn::cuda
