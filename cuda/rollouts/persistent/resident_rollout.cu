#include "cuda/core/launch.hpp"
#include "cuda/rollouts/given_gradients.hpp"
#include "cuda/rollouts/persistent/fastest_kernel.hpp"
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
SequencesKernel kernel() {
  using Tile = PersistentTile<lanes, Columns>;
  using Exchange = BlockExchange<Tile::size, Sequences>;
  return {persistent_rollout<direction, Tile, Exchange, Sequences, 1, steps_ahead>,
          {.grid = 1,
           .block = Tile::threads(Exchange::rows),
           .shared = persistent_rollout_bytes<direction, Tile, Exchange, Sequences, 1, steps_ahead>},
          Sequences,
          multiply_cycles<Tile::size, Tile::size, Sequences>};
}

/// Carries one of these numbers of sequences a multiprocessor: one while multiprocessors last. More cost
/// their multiplications, but no more waiting.
template <Direction direction, int Columns, int... Sequences>
void start(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  static const SequencesKernel kernels[] = {kernel<direction, Columns, Sequences>()...};
  FastestKernel fastest(arguments.batch);
  fastest.consider(kernels, gpu.multiprocessors());
  fastest.get().start(gpu, arguments, q);
}

/// The smallest size of `Columns` and more that holds N.
template <Direction direction, int Columns = 4>
void start_padded(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  if constexpr (Columns * lanes < largest_resident_size) {
    if (arguments.hidden_size > Columns * lanes)
      return start_padded<direction, Columns + 2>(gpu, arguments, q);
  }
  // Of smaller sizes a multiprocessor runs several blocks at the same time, so more sequences a block were
  // not tried. Seven and eight spill registers at N = 192.
  if constexpr (Columns * lanes <= 128) {
    start<direction, Columns, 1, 2>(gpu, arguments, q);
  } else {
    start<direction, Columns, 1, 2, 3, 4, 6>(gpu, arguments, q);
  }
}

}  // namespace

void resident_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  if (direction == Direction::forward) return start_padded<Direction::forward>(gpu, arguments, q);
  start_padded<Direction::backward>(gpu, with_given_gradients(arguments), q);
}

}  // namespace orthornn::cuda
