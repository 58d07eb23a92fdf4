#include <algorithm>

#include "cuda/core/launch.hpp"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "cuda/rollouts/persistent/tensor_core_rollout.cuh"

namespace orthornn::cuda {
namespace {

/// A way to carry up to Operands::most_sequences at a time.
template <Direction direction, class Operands, int Blocks, int Units, int UnitRows = 64>
struct Kernel {
  using Shape = TensorCoreShape<Operands, Blocks, Units, UnitRows>;
  static constexpr auto function = tensor_core_rollout<direction, Shape>;
  static constexpr int most_sequences = Operands::most_sequences;

  static LaunchShape shape(unsigned clusters) {
    return {
        .grid = clusters * Blocks, .block = Shape::threads, .shared = Shape::shared_bytes, .cluster = Blocks};
  }
  /// Clusters that run at the same time.
  static Index clusters(Context& gpu) { return active_clusters(gpu, function, shape(1)); }
  /// Whether they carry all units and all sequences.
  static bool carries(Context& gpu, const RolloutArguments<float>& arguments) {
    return arguments.hidden_size <= Blocks * Shape::block_rows &&
           arguments.batch <= clusters(gpu) * most_sequences;
  }
};

/// Starts the first of the kernels that carries all units and sequences at the same time, or else the last in
/// turns. A cluster has as few sequences as that takes, for each is a part of what the blocks send to one
/// another.
template <class Kernel, class... Others>
void start_first(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  if constexpr (sizeof...(Others) > 0) {
    if (!Kernel::carries(gpu, arguments)) return start_first<Others...>(gpu, arguments, q);
  }
  const Index clusters = Kernel::clusters(gpu), batch = arguments.batch;
  const Index turns = (batch - 1) / (clusters * Kernel::most_sequences) + 1;
  const Index sequences = (batch - 1) / (clusters * turns) + 1;
  launch(gpu, Kernel::function, Kernel::shape(blocks_for(batch, sequences)), arguments, q,
         static_cast<int>(sequences));
}

// Q and the state in two terms each. Terms of the state as columns save a third of the instructions, where
// there are so many columns.
using TwoTermsOf4 = Bf16Operands<2, 1, 2>;
using TwoTermsOf8 = Bf16Operands<2, 2, 1>;
using TwoTermsOf16 = Bf16Operands<2, 2, 1, 2>;
template <int Octets>
using OneTermState = Bf16Operands<2, 1, 1, Octets>;
template <int Octets>
using OneTerm = Bf16Operands<1, 1, 1, Octets>;

/// Operands that take up to 256 units, over clusters of two; in bf16 as well, for a state of one term would
/// not be faster.
template <Direction direction>
void start_up_to_256(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  start_first<Kernel<direction, TwoTermsOf4, 2, 2>, Kernel<direction, TwoTermsOf8, 2, 2>,
              Kernel<direction, TwoTermsOf16, 2, 2>>(gpu, arguments, q);
}

/// Up to 480 units in bf16. A GPU runs more clusters of six blocks at a time than of seven or eight: on an
/// H200 they carry up to 136 sequences, not 120. There 128 take 8 to 14 % less than with 16 columns over more
/// blocks. In tf32 they take as long (tools/bench-results/h200-cluster-blocks.csv).
template <Direction direction>
using SixBlocks = Kernel<direction, OneTermState<1>, 6, 1, 80>;

/// Up to 64 * Blocks units, a unit a block, so that all operands are in registers. Batches that are too large
/// for such clusters go over half as many blocks of two units, which carry more sequences at a time. In bf16
/// `Others` and then two octets of sequences come before that.
template <Direction direction, int Blocks, class... Others>
void start_up_to_512(Context& gpu, const RolloutArguments<float>& arguments, const float* q,
                     Precision precision) {
  constexpr int half = (Blocks + 1) / 2;
  if (precision == Precision::bf16) {
    return start_first<Kernel<direction, OneTermState<1>, Blocks, 1>, Others...,
                       Kernel<direction, OneTermState<2>, Blocks, 1>,
                       Kernel<direction, OneTermState<1>, half, 2>,
                       Kernel<direction, OneTermState<2>, half, 2>>(gpu, arguments, q);
  }
  start_first<Kernel<direction, TwoTermsOf4, Blocks, 1>, Kernel<direction, TwoTermsOf8, Blocks, 1>,
              Kernel<direction, TwoTermsOf8, half, 2>, Kernel<direction, TwoTermsOf16, half, 2>>(
      gpu, arguments, q);
}

/// Up to 128 * Blocks units, in bf16 alone: two terms of Q do not fit.
template <Direction direction, int Blocks>
void start_up_to_1024(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  start_first<Kernel<direction, OneTerm<1>, Blocks, 2>, Kernel<direction, OneTerm<2>, Blocks, 2>>(
      gpu, arguments, q);
}

template <Direction direction>
void start_padded(const RolloutArguments<float>& arguments, const float* q, Precision precision) {
  Context& gpu = context(arguments.device);
  const Index n = arguments.hidden_size;
  if (n <= 256) return start_up_to_256<direction>(gpu, arguments, q);
  if (n <= 320) return start_up_to_512<direction, 5>(gpu, arguments, q, precision);
  if (n <= 384) return start_up_to_512<direction, 6>(gpu, arguments, q, precision);
  if (n <= 448) return start_up_to_512<direction, 7, SixBlocks<direction>>(gpu, arguments, q, precision);
  if (n <= 512) return start_up_to_512<direction, 8, SixBlocks<direction>>(gpu, arguments, q, precision);
  if (n <= 640) return start_up_to_1024<direction, 5>(gpu, arguments, q);
  if (n <= 768) return start_up_to_1024<direction, 6>(gpu, arguments, q);
  if (n <= 896) return start_up_to_1024<direction, 7>(gpu, arguments, q);
  start_up_to_1024<direction, 8>(gpu, arguments, q);
}

}  // namespace

void tensor_core_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                 const float* q, Precision precision) {
  if (direction == Direction::forward) return start_padded<Direction::forward>(arguments, q, precision);
  start_padded<Direction::backward>(arguments, q, precision);
}

}  // namespace orthornn::cuda
