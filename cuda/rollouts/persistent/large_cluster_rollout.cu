#include <iterator>
#include <utility>

#include "cuda/rollouts/given_gradients.hpp"
#include "cuda/rollouts/persistent/cluster_kernel.cuh"
#include "cuda/rollouts/persistent/cluster_rollout.hpp"

namespace orthornn::cuda {
namespace {

template <Direction direction, std::size_t... numbers>
const SequencesKernel& kernel_of(const ClusterShape& shape, std::index_sequence<numbers...>) {
  static const SequencesKernel kernels[] = {cluster_kernel<direction, large_clusters[numbers]>()...};
  return kernels[&shape - large_clusters];
}

}  // namespace

void large_cluster_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q,
                           const ClusterShape& shape) {
  constexpr std::make_index_sequence<std::size(large_clusters)> numbers;
  const Context& gpu = context(arguments.device);
  if (direction == Direction::forward)
    return kernel_of<Direction::forward>(shape, numbers).start(gpu, arguments, q);
  kernel_of<Direction::backward>(shape, numbers).start(gpu, with_given_gradients(arguments), q);
}

}  // namespace orthornn::cuda
