#include "cuda/cells/cluster_rollout.hpp"
#include "cuda/cells/tensor_core_rollout.cuh"

namespace orthornn::cuda {
namespace {

template <Direction direction, class Operand, int Blocks, int Tiles, bool insist = false>
bool start(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  return start_in_one_turn(gpu, tensor_core_rollout<direction, Operand, Blocks, Tiles>, Blocks,
                           tensor_core_threads, TensorCoreMemory<Operand, Blocks, Tiles>::bytes, 8 * Tiles,
                           insist, arguments, q);
}

/// Tiles of eight sequences a cluster: as few as all can be carried with at the same time, and no more than
/// shared memory holds beside a unit of Q.
template <Direction direction, class Operand, int Blocks>
void start_smallest(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  if (start<direction, Operand, Blocks, 1>(gpu, arguments, q)) return;
  if constexpr (TensorCoreMemory<Operand, Blocks, 1>::second_unit_is_shared) {
    start<direction, Operand, Blocks, 2, true>(gpu, arguments, q);
  } else {
    start<direction, Operand, Blocks, 2>(gpu, arguments, q) ||
        start<direction, Operand, Blocks, 3, true>(gpu, arguments, q);
  }
}

template <Direction direction, class Operand>
void start_padded(const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  if (arguments.hidden_size <= 256) return start_smallest<direction, Operand, 2>(gpu, arguments, q);
  if constexpr (std::is_same_v<Operand, Bf16Operand>) {
    if (arguments.hidden_size > 512) return start_smallest<direction, Operand, 8>(gpu, arguments, q);
  }
  start_smallest<direction, Operand, 4>(gpu, arguments, q);
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
