#include "cuda/products/few_over_grid.hpp"

#include "cuda/core/context.hpp"
#include "cuda/products/grid_plan.hpp"

namespace orthornn::cuda {

std::optional<double> few_over_grid_us(Device device, Index batch, Index hidden_size) {
  if (!has_grid_kernels()) return std::nullopt;
  const auto block = row_block(hidden_size, context(device).multiprocessors());
  if (!block || batch > block->most_sequences()) return std::nullopt;
  // Fitted to the times in fp32 that tools/bench-results/h200-small-batches.csv has of these kernels.
  const double each = block->size > 2048 ? 1.06 : 0.81;
  return 1.7 + each * static_cast<double>(batch);
}

}  // namespace orthornn::cuda
