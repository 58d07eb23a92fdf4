#include "cuda/products/large_clusters.hpp"

#include "cuda/core/clusters.hpp"
#include "cuda/core/context.hpp"

namespace orthornn::cuda {
namespace {

/// Of clusters of this shape: how many one after another a multiprocessor runs for a batch; 0 where they do
/// not hold N or the GPU has no room for one.
Index turns_of(const ClusterShape& shape, Context& gpu, Index batch, Index hidden_size) {
  if (hidden_size > shape.size) return 0;
  const Index at_a_time = clusters_at_a_time(gpu, shape.blocks);
  return at_a_time == 0 ? 0 : (batch - 1) / (shape.sequences() * at_a_time) + 1;
}

}  // namespace

std::optional<LargeClusterPlan> large_cluster_plan(Device device, Index batch, Index hidden_size) {
  Context& gpu = context(device);
  std::optional<LargeClusterPlan> fastest;
  for (const ClusterShape& shape : large_clusters) {
    const Index turns = turns_of(shape, gpu, batch, hidden_size);
    const double step_us = static_cast<double>(turns) * shape.step_us();
    if (turns > 0 && (!fastest || step_us < fastest->step_us)) fastest = {&shape, step_us};
  }
  return fastest;
}

std::optional<double> large_cluster_us(Device device, Index batch, Index hidden_size) {
  for (const ClusterShape& shape : one_sequence_clusters) {
    if (turns_of(shape, context(device), batch, hidden_size) == 1) return shape.step_us();
  }
  const auto plan = large_cluster_plan(device, batch, hidden_size);
  return plan ? std::optional(plan->step_us) : std::nullopt;
}

}  // namespace orthornn::cuda
