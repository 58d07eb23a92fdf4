#include <algorithm>

#include "cuda/core/launch.hpp"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "cuda/rollouts/persistent/tensor_core_rollout.cuh"

namespace orthornn::cuda {
namespace {

template <Direction direction, class Operands, int Blocks, int Units, int Tiles>
struct Kernel {
  static constexpr auto function = tensor_core_rollout<direction, Operands, Blocks, Units, Tiles>;

  static LaunchShape shape(unsigned clusters) {
    return {.grid = clusters * Blocks,
            .block = tensor_core_threads,
            .shared = TensorCoreShape<Operands, Blocks, Units, Tiles>::shared_bytes,
            .cluster = Blocks};
  }
  static void start(Context& gpu, int sequences, const RolloutArguments<float>& arguments, const float* q) {
    launch(gpu, function, shape(blocks_for(arguments.batch, Index{sequences} * Tiles)), arguments, q,
           sequences);
  }
};

/// Two tiles, of which one travels while the other is multiplied, wherever there are so many sequences; and
/// as few a tile as all can be carried with at the same time, for what each adds is its exchange. `Few` are
/// operands for tiles of few sequences, `Many` for larger ones.
template <Direction direction, class Few, class Many, int Blocks, int Units>
void start_smallest(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  using One = Kernel<direction, Few, Blocks, Units, 1>;
  using Two = Kernel<direction, Few, Blocks, Units, 2>;
  if (arguments.batch <= active_clusters(gpu, One::function, One::shape(1))) {
    return One::start(gpu, 1, arguments, q);
  }
  const Index tiles = Index{2} * active_clusters(gpu, Two::function, Two::shape(1));
  const Index sequences = (arguments.batch + tiles - 1) / tiles;
  if (sequences <= Few::tile_sequences) return Two::start(gpu, static_cast<int>(sequences), arguments, q);
  Kernel<direction, Many, Blocks, Units, 2>::start(
      gpu, static_cast<int>(std::min<Index>(sequences, Many::tile_sequences)), arguments, q);
}

// Q and the state in two terms each. With four sequences a tile and less, terms as columns save a third of
// the instructions: 2.65 ms instead of 3.70 (N = 256, T = 784, 128 sequences, forward and backward).
using TwoTermColumns = Bf16Operands<2, 1, 2>;
using TwoTermOperands = Bf16Operands<2, 2, 1>;
using OneTermState = Bf16Operands<2, 1, 1>;
using OneTerm = Bf16Operands<1, 1, 1>;

template <Direction direction>
void start_padded(const RolloutArguments<float>& arguments, const float* q, Precision precision) {
  Context& gpu = context(arguments.device);
  const Index n = arguments.hidden_size;
  // In bfloat16 as well: a state of one term would not be faster (2.96 ms).
  if (n <= 256) return start_smallest<direction, TwoTermColumns, TwoTermOperands, 2, 2>(gpu, arguments, q);
  // In bf16 alone. Two terms of Q do not fit.
  if (n > 512) return start_smallest<direction, OneTerm, OneTerm, 8, 2>(gpu, arguments, q);
  // Above 256, eight blocks with 64 rows each: both terms of Q are 128 registers a thread.
  if (precision == Precision::bf16) {
    return start_smallest<direction, OneTermState, OneTermState, 8, 1>(gpu, arguments, q);
  }
  start_smallest<direction, TwoTermColumns, TwoTermOperands, 8, 1>(gpu, arguments, q);
}

}  // namespace

void tensor_core_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                 const float* q, Precision precision) {
  if (direction == Direction::forward) return start_padded<Direction::forward>(arguments, q, precision);
  start_padded<Direction::backward>(arguments, q, precision);
}

}  // namespace orthornn::cuda
