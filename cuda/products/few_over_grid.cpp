#include "cuda/products/few_over_grid.hpp"

#include <algorithm>

#include "cuda/core/context.hpp"
#include "cuda/products/grid_plan.hpp"
#include "cuda/products/on_chip.hpp"

namespace orthornn::cuda {

std::optional<double> few_over_grid_us(Device device, Index batch, Index hidden_size) {
  if (!has_grid_kernels() || hidden_size <= largest_cluster_size || batch > few_over_grid_sequences)
    return std::nullopt;
  const Index rows = Index{few_over_grid_rows} * context(device).multiprocessors();
  if (hidden_size > std::min(rows, largest_few_over_grid)) return std::nullopt;
  // Fitted to the times in fp32 that tools/bench-results/h200-small-batches.csv has of these kernels.
  const double each = hidden_size <= largest_of_eight_columns ? 0.81 : 1.06;
  return 1.7 + each * static_cast<double>(batch);
}

}  // namespace orthornn::cuda
