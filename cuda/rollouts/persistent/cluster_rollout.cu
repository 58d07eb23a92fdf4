#include "cuda/rollouts/given_gradients.hpp"
#include "cuda/rollouts/persistent/cluster_kernel.cuh"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "cuda/rollouts/persistent/fastest_kernel.hpp"
#include "cuda/rollouts/persistent/persistent_rollout.hpp"

namespace orthornn::cuda {
namespace {

/// What a cluster carries: `Groups` times `Group` sequences.
template <int Group, int Groups = 1>
struct Sequences {
  /// All columns are in registers.
  template <int Size, int Blocks>
  static constexpr ClusterShape shape{.size = Size,
                                      .blocks = Blocks,
                                      .rows = Size / Blocks,
                                      .kept = Size / ClusterShape::lanes,
                                      .group = Group,
                                      .groups = Groups};
};

/// The kernels for up to Size units over clusters of `Blocks`. The GPU runs as many clusters of each as of
/// the first: none leaves registers for a second block on its multiprocessors.
template <int Size, int Blocks, class... Carried>
struct Clusters {
  template <Direction direction>
  static void consider(Context& gpu, FastestKernel& fastest) {
    static const SequencesKernel kernels[] = {
        cluster_kernel<direction, Carried::template shape<Size, Blocks>>()...};
    fastest.consider(kernels, active_clusters(gpu, kernels[0].function, kernels[0].shape));
  }
};

// From two sequences on: few_sequences_rollout carries one. One group where registers have room for the sums
// of all its sequences: each waits for an exchange of its own. Left out are numbers of which the next one
// takes about a tenth longer at most, or that take no less time than two turns or than other clusters for the
// same sizes (tools/bench-results/h200-sequences.csv).
using TwoBlocks = Clusters<256, 2, Sequences<2>, Sequences<3>, Sequences<4>, Sequences<5>, Sequences<6>,
                           Sequences<7>, Sequences<8>, Sequences<3, 3>, Sequences<4, 3>>;
using ThreeBlocks = Clusters<288, 3, Sequences<2>, Sequences<3>, Sequences<4>, Sequences<5>, Sequences<6>,
                             Sequences<4, 2>, Sequences<5, 2>, Sequences<4, 3>, Sequences<8, 2>>;
using FourBlocksOf80 = Clusters<320, 4, Sequences<2>, Sequences<3>, Sequences<4>, Sequences<5>, Sequences<6>,
                                Sequences<7>, Sequences<8>>;
using FourBlocksOf96 = Clusters<384, 4, Sequences<2>, Sequences<3>, Sequences<4>, Sequences<5>, Sequences<6>,
                                Sequences<4, 2>, Sequences<3, 3>, Sequences<4, 3>>;
using FiveBlocks = Clusters<320, 5, Sequences<2>, Sequences<3>, Sequences<6>, Sequences<4, 3>,
                            Sequences<7, 2>, Sequences<8, 2>>;
template <int Size>
using EightBlocks =
    Clusters<Size, 8, Sequences<2>, Sequences<3>, Sequences<4>, Sequences<5>, Sequences<6>, Sequences<8>,
             Sequences<9>, Sequences<10>, Sequences<4, 3>, Sequences<7, 2>, Sequences<8, 2>>;

template <Direction direction, class... Kinds>
void start_fastest(const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  FastestKernel fastest(arguments.batch);
  (Kinds::template consider<direction>(gpu, fastest), ...);
  fastest.get().start(gpu, arguments, q);
}

template <Direction direction>
void start_padded(const RolloutArguments<float>& arguments, const float* q) {
  const Index n = arguments.hidden_size;
  if (n <= 256) return start_fastest<direction, TwoBlocks>(arguments, q);
  // More blocks take less time a sequence, but the GPU has room for fewer of their clusters.
  if (n <= 288) return start_fastest<direction, ThreeBlocks, FourBlocksOf80, FiveBlocks>(arguments, q);
  if (n <= 320) return start_fastest<direction, FourBlocksOf80, FiveBlocks>(arguments, q);
  if (n <= 384) return start_fastest<direction, FourBlocksOf96>(arguments, q);
  if (n <= 448) return start_fastest<direction, EightBlocks<448>>(arguments, q);
  start_fastest<direction, EightBlocks<512>>(arguments, q);
}

}  // namespace

void fused_multiply_add_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments,
                                        const float* q) {
  if (direction == Direction::forward) return start_padded<Direction::forward>(arguments, q);
  start_padded<Direction::backward>(with_given_gradients(arguments), q);
}

void cluster_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                     Precision precision) {
  const Index n = arguments.hidden_size;
  if (few_sequences_rollout(direction, arguments, q)) return;
  if (n > largest_small_cluster_size(precision)) {
    const auto plan = large_cluster_plan(arguments.device, arguments.batch, n);
    return large_cluster_rollout(direction, arguments, q, *plan.value().shape);
  }
  if (precision == Precision::fp32) return fused_multiply_add_cluster_rollout(direction, arguments, q);
  tensor_core_cluster_rollout(direction, arguments, q, precision);
}

}  // namespace orthornn::cuda
