#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "core/back_end.hpp"
#include "cuda/cells/persistent_rollout.hpp"
#include "cuda/core/device.hpp"
#include "orthornn/cells/rollout.hpp"

namespace orthornn {
namespace {

/// Why a way does not take these sizes; nullopt where it does.
template <class T>
std::optional<std::string> obstacle(RolloutWay way, const Transition<T>& transition, Index length,
                                    Index batch) {
  if (way == RolloutWay::stepwise) return std::nullopt;
  if constexpr (!std::is_same_v<T, float>) return "it computes in float alone";
  if (transition.dense_matrix().data == nullptr) {
    return fmt::format("the transition is applied in its {} form, not as a matrix", transition.form());
  }
  const Execution& execution = transition.execution();
  const Index n = transition.hidden_size();
  if (way == RolloutWay::cluster && !cuda::has_clusters(execution.device)) {
    return "this GPU, or part of a GPU, runs no thread-block clusters as compute capability 9.0 has them";
  }
  const Index largest = way == RolloutWay::resident              ? cuda::largest_resident_size
                        : execution.precision == Precision::bf16 ? cuda::largest_bf16_cluster_size
                                                                 : cuda::largest_cluster_size;
  if (n > largest) {
    // The resident way computes in fp32 whatever the precision.
    const std::string in_precision =
        way == RolloutWay::cluster ? " in " + name_of(execution.precision) : std::string();
    return fmt::format("hidden size {} is above {}, the largest{}", n, largest, in_precision);
  }
  if (!cuda::fits_persistent_rollout(length, batch, n))
    return "there are no steps, more than 2^30 of them, or 2^31 numbers in a step";
  return std::nullopt;
}

}  // namespace

template <class T>
RolloutWay rollout_way(const Transition<T>& transition, Index length, Index batch) {
  if constexpr (has_cuda_bodies) {
    const RolloutWay asked = transition.execution().rollout;
    if (!transition.device().is_cuda()) return RolloutWay::stepwise;
    if (asked != RolloutWay::automatic) {
      if (const auto reason = obstacle(asked, transition, length, batch)) {
        throw ValueError(fmt::format("the rollout cannot be {}: {}; use automatic", name_of(asked), *reason));
      }
      return asked;
    }
    // Where one multiprocessor holds Q, a step waits for no other.
    for (const RolloutWay way : {RolloutWay::resident, RolloutWay::cluster}) {
      if (!obstacle(way, transition, length, batch)) return way;
    }
  }
  return RolloutWay::stepwise;
}

template <class T>
Index launches_of_rollout(const Transition<T>& transition, Index length, Index batch) {
  if (rollout_way(transition, length, batch) != RolloutWay::stepwise) return 1;
  // A product, and a kernel that finishes the step. A sequence this long is recorded in no case.
  const Index of_step = transition.launches_of_product() + 1;
  return std::min(length, RecordedLoops::most_launches) * of_step;
}

template RolloutWay rollout_way<float>(const Transition<float>&, Index, Index);
template RolloutWay rollout_way<double>(const Transition<double>&, Index, Index);
template Index launches_of_rollout<float>(const Transition<float>&, Index, Index);
template Index launches_of_rollout<double>(const Transition<double>&, Index, Index);

}  // namespace orthornn
