#include <algorithm>

#include "cuda/core/launch.hpp"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"
#include "cuda/rollouts/persistent/tensor_core_rollout.cuh"

namespace orthornn::cuda {
namespace {

/// A way to carry up to Operands::most_sequences at a time, of up to `Columns` units.
template <Direction direction, class Operands, int Blocks, int Units, int UnitRows = 64,
          int Columns = Blocks* Units* UnitRows>
struct Kernel {
  using Shape = TensorCoreShape<Operands, Blocks, Units, UnitRows, Columns>;
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
    return arguments.hidden_size <= Columns && arguments.batch <= clusters(gpu) * most_sequences;
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

// Blocks for N up to 512. Small ones have few rows to multiply, so they take the least time with few
// sequences. But the GPU runs fewer clusters of many blocks at a time, and a cluster takes longer with more
// sequences. So each list below goes by time: an entry is the fastest of those that were tried on an H200 for
// the batches that the entries before it do not carry (tools/bench-results/h200-cluster-rows.csv).
template <Direction direction, class Operands, int Blocks>
using Of64 = Kernel<direction, Operands, Blocks, 1>;
template <Direction direction, class Operands, int Blocks>
using Of80 = Kernel<direction, Operands, Blocks, 1, 80>;
/// Up to 112 columns a part: with more, registers are spilled.
template <Direction direction, class Operands, int Blocks>
using Of96 = Kernel<direction, Operands, Blocks, 1, 96, std::min(96 * Blocks, 448)>;
template <Direction direction, class Operands, int Blocks>
using Of128 = Kernel<direction, Operands, Blocks, 2>;

/// With operands of two terms: N up to 512, in bf16 up to 256, where a state of one term would not be faster.
template <Direction direction>
void start_with_two_terms(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  constexpr Direction d = direction;
  const Index n = arguments.hidden_size;
  if (n <= 256) {
    return start_first<Of128<d, TwoTermsOf4, 2>, Of128<d, TwoTermsOf8, 2>, Of128<d, TwoTermsOf16, 2>>(
        gpu, arguments, q);
  }
  if (n <= 288) {
    return start_first<Of64<d, TwoTermsOf4, 5>, Of96<d, TwoTermsOf4, 3>, Of64<d, TwoTermsOf8, 5>,
                       Of96<d, TwoTermsOf8, 3>, Of128<d, TwoTermsOf16, 3>>(gpu, arguments, q);
  }
  if (n <= 320) {
    return start_first<Of64<d, TwoTermsOf4, 5>, Of80<d, TwoTermsOf4, 4>, Of64<d, TwoTermsOf8, 5>,
                       Of80<d, TwoTermsOf8, 4>, Of128<d, TwoTermsOf8, 3>, Of128<d, TwoTermsOf16, 3>>(
        gpu, arguments, q);
  }
  if (n <= 384) {
    return start_first<Of64<d, TwoTermsOf4, 6>, Of96<d, TwoTermsOf4, 4>, Of96<d, TwoTermsOf8, 4>,
                       Of128<d, TwoTermsOf8, 3>, Of128<d, TwoTermsOf16, 3>>(gpu, arguments, q);
  }
  if (n <= 448) {
    return start_first<Of64<d, TwoTermsOf4, 7>, Of96<d, TwoTermsOf4, 5>, Of64<d, TwoTermsOf8, 7>,
                       Of96<d, TwoTermsOf8, 5>, Of128<d, TwoTermsOf8, 4>, Of128<d, TwoTermsOf16, 4>>(
        gpu, arguments, q);
  }
  start_first<Of64<d, TwoTermsOf4, 8>, Of64<d, TwoTermsOf8, 8>, Of128<d, TwoTermsOf8, 4>,
              Of128<d, TwoTermsOf16, 4>>(gpu, arguments, q);
}

/// With a state of one term, N from 257 to 512.
template <Direction direction>
void start_with_one_term_of_state(Context& gpu, const RolloutArguments<float>& arguments, const float* q) {
  constexpr Direction d = direction;
  using Of8 = OneTermState<1>;
  using Of16 = OneTermState<2>;
  const Index n = arguments.hidden_size;
  if (n <= 288) {
    return start_first<Of64<d, Of8, 5>, Of96<d, Of8, 3>, Of64<d, Of16, 5>, Of128<d, Of16, 3>>(gpu, arguments,
                                                                                              q);
  }
  if (n <= 320) {
    return start_first<Of64<d, Of8, 5>, Of80<d, Of8, 4>, Of64<d, Of16, 5>, Of128<d, Of16, 3>>(gpu, arguments,
                                                                                              q);
  }
  if (n <= 384) {
    return start_first<Of64<d, Of8, 6>, Of96<d, Of8, 4>, Of128<d, Of8, 3>, Of128<d, Of16, 3>>(gpu, arguments,
                                                                                              q);
  }
  if (n <= 448) {
    return start_first<Of64<d, Of8, 7>, Of96<d, Of8, 5>, Of128<d, Of8, 4>, Of128<d, Of16, 4>>(gpu, arguments,
                                                                                              q);
  }
  start_first<Of64<d, Of8, 8>, Of80<d, Of8, 6>, Of64<d, Of16, 8>, Of128<d, Of8, 4>, Of128<d, Of16, 4>>(
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
  if (n <= 256 || precision == Precision::tf32) return start_with_two_terms<direction>(gpu, arguments, q);
  if (n <= 512) return start_with_one_term_of_state<direction>(gpu, arguments, q);
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
