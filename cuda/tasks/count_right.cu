#include <algorithm>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/tasks/count_right.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / warp_size;
// Blocks at most: their counts are added by one block.
constexpr Index max_blocks = 1024;

struct Counts {
  Index right;
  Index counted;
};

/// A warp takes a row, and its lanes share the row's entries.
__global__ void count_rows(const float* outputs, const std::int32_t* classes, Index rows, Index columns,
                           Counts* counts) {
  __shared__ Index right_partial[warps], counted_partial[warps];
  const Index lane = threadIdx.x % warp_size;
  Index right = 0, counted = 0;
  const Index stride = static_cast<Index>(gridDim.x) * warps;
  for (Index row = grid_thread() / warp_size; row < rows; row += stride) {
    const Index target = classes[row];
    if (target < 0) continue;
    const float* y = outputs + row * columns;
    // A class beyond the last is a fault that the loss reports.
    bool largest = target < columns;
    for (Index c = lane; largest && c < columns; c += warp_size) largest = c == target || y[target] > y[c];
    // The lanes of a warp have the same row, so all of them arrive here.
    const int smaller = warp_sum(largest ? 0 : 1);
    if (lane > 0) continue;
    right += smaller == 0;
    ++counted;
  }
  right = block_sum(right, right_partial);
  counted = block_sum(counted, counted_partial);
  if (threadIdx.x == 0) counts[blockIdx.x] = {right, counted};
}

__global__ void add_counts(const Counts* counts, Index blocks, double* score) {
  __shared__ Index right_partial[warps], counted_partial[warps];
  Index right = 0, counted = 0;
  for (Index i = threadIdx.x; i < blocks; i += blockDim.x) {
    right += counts[i].right;
    counted += counts[i].counted;
  }
  right = block_sum(right, right_partial);
  counted = block_sum(counted, counted_partial);
  if (threadIdx.x > 0) return;
  score[0] += static_cast<double>(right);
  score[1] += static_cast<double>(counted);
}

}  // namespace

void count_right(TensorView<const float> outputs, TensorView<const std::int32_t> classes,
                 TensorView<double> score) {
  Context& gpu = context(outputs.device());
  const Index rows = classes.size();
  const Index blocks = std::clamp<Index>(blocks_for(rows * warp_size, threads), 1, max_blocks);
  Counts* counts = gpu.scratch<Counts>(static_cast<std::size_t>(blocks));
  launch(gpu, count_rows, {.grid = static_cast<unsigned>(blocks), .block = threads}, outputs.data(),
         classes.data(), rows, outputs.shape()[1], counts);
  launch(gpu, add_counts, {.grid = 1, .block = threads}, counts, blocks, score.data());
}

}  // namespace orthornn::cuda
