#include "cuda/products/large_clusters.hpp"

#include <algorithm>
#include <limits>

#include "cuda/core/clusters.hpp"
#include "cuda/core/context.hpp"

namespace orthornn::cuda {
namespace {

constexpr Index up(Index x, Index y) { return (x + y - 1) / y; }

/// Of clusters of this shape: how many one after another a multiprocessor runs for a batch; 0 where they do
/// not hold N or the GPU has no room for one.
Index turns_of(const ClusterShape& shape, Context& gpu, Index batch, Index hidden_size) {
  if (hidden_size > shape.size) return 0;
  const Index at_a_time = clusters_at_a_time(gpu, shape.blocks);
  return at_a_time == 0 ? 0 : up(up(batch, shape.sequences()), at_a_time);
}

}  // namespace

const ClusterShape* large_cluster(Device device, Index batch, Index hidden_size) {
  Context& gpu = context(device);
  const ClusterShape* fastest = nullptr;
  double least_us = std::numeric_limits<double>::infinity();
  for (const ClusterShape& shape : large_clusters) {
    const Index turns = turns_of(shape, gpu, batch, hidden_size);
    const double us = static_cast<double>(turns) * shape.step_us();
    if (turns == 0 || us >= least_us) continue;
    fastest = &shape;
    least_us = us;
  }
  return fastest;
}

std::optional<double> large_cluster_us(Device device, Index batch, Index hidden_size) {
  Context& gpu = context(device);
  for (const ClusterShape& shape : one_sequence_clusters) {
    if (turns_of(shape, gpu, batch, hidden_size) == 1) return shape.step_us();
  }
  const ClusterShape* const shape = large_cluster(device, batch, hidden_size);
  if (shape == nullptr) return std::nullopt;
  return static_cast<double>(turns_of(*shape, gpu, batch, hidden_size)) * shape->step_us();
}

}  // namespace orthornn::cuda
