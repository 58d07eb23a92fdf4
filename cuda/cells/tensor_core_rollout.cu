#include <algorithm>
#include <type_traits>

#include "cuda/cells/cluster_rollout.hpp"
#include "cuda/cells/tensor_core_rollout.cuh"
#include "cuda/core/launch.hpp"

namespace orthornn::cuda {
namespace {

template <Direction direction, class Operand, int Blocks, int Units, int Tiles>
struct Kernel {
  static constexpr auto function = tensor_core_rollout<direction, Operand, Blocks, Units, Tiles>;

  static LaunchShape shape(unsigned clusters) {
    return {.grid = clusters * Blocks,
            .block = tensor_core_threads,
            .shared = TensorCoreShape<Operand, Blocks, Units, Tiles>::shared_bytes,
            .cluster = Blocks};
  }
  static void start(Context& gpu, int sequences, const RolloutArguments<float>& arguments, const float* q) {
    launch(gpu, function, shape(blocks_for(arguments.batch, Index{sequences} * Tiles)), arguments, q,
           sequences);
  }
};

/// Two tiles, of which one travels while the other is multiplied, wherever there are so many sequences; and
/// as few a tile as all can be carried with at the same time, for what each adds is its exchange.
template <Direction direction, class Operand, int Blocks, int Units>
void start_smallest(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  using One = Kernel<direction, Operand, Blocks, Units, 1>;
  using Two = Kernel<direction, Operand, Blocks, Units, 2>;
  if (arguments.batch <= active_clusters(gpu, One::function, One::shape(1))) {
    return One::start(gpu, 1, arguments, q);
  }
  const Index tiles = Index{2} * active_clusters(gpu, Two::function, Two::shape(1));
  const Index sequences = std::min<Index>((arguments.batch + tiles - 1) / tiles, tile_sequences);
  Two::start(gpu, static_cast<int>(sequences), arguments, q);
}

template <Direction direction, class Operand>
void start_padded(const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  const Index n = arguments.hidden_size;
  if (n <= 256) return start_smallest<direction, Operand, 2, 2>(gpu, arguments, q);
  // Eight blocks with 64 rows each, also where four would do in bfloat16: those took an eighth longer.
  if (n <= 512) return start_smallest<direction, Operand, 8, 1>(gpu, arguments, q);
  if constexpr (std::is_same_v<Operand, Bf16Operand>)
    start_smallest<direction, Operand, 8, 2>(gpu, arguments, q);
}

template <class Operand>
void start_direction(Direction direction, const RolloutArguments<float>& arguments, const float* q) {
  if (direction == Direction::forward) return start_padded<Direction::forward, Operand>(arguments, q);
  start_padded<Direction::backward, Operand>(arguments, q);
}

}  // namespace

void tensor_core_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                 const float* q, Precision precision) {
  if (precision == Precision::bf16) return start_direction<Bf16Operand>(direction, arguments, q);
  start_direction<Tf32Operand>(direction, arguments, q);
}

}  // namespace orthornn::cuda
