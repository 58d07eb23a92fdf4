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

/// Whether a row has its largest entry at the target, the same for all lanes of a warp, which share its
/// entries.
__device__ bool is_largest(const float* y, Index columns, Index target, Index lane) {
  // A class beyond the last is a fault that the loss reports.
  bool largest = target < columns;
  for (Index c = lane; largest && c < columns; c += warp_size) largest = c == target || y[target] > y[c];
  // The lanes of a warp have the same row, so all of them arrive here.
  return warp_sum(largest ? 0 : 1) == 0;
}

/// A warp takes a row.
__global__ void count_rows(const float* outputs, const std::int32_t* classes, Index rows, Index columns,
                           Counts* counts) {
  __shared__ Index right_partial[warps], counted_partial[warps];
  const Index lane = threadIdx.x % warp_size;
  Index right = 0, counted = 0;
  const Index stride = static_cast<Index>(gridDim.x) * warps;
  for (Index row = grid_thread() / warp_size; row < rows; row += stride) {
    const Index target = classes[row];
    if (target < 0) continue;
    const bool largest = is_largest(outputs + row * columns, columns, target, lane);
    if (lane > 0) continue;
    right += largest;
    ++counted;
  }
  right = block_sum(right, right_partial);
  counted = block_sum(counted, counted_partial);
  if (threadIdx.x == 0) counts[blockIdx.x] = {right, counted};
}

/// A warp takes a sequence, up to its first wrong answer.
__global__ void count_sequences(const float* outputs, const std::int32_t* classes, Index length, Index batch,
                                Index columns, Counts* counts) {
  __shared__ Index right_partial[warps], counted_partial[warps];
  const Index lane = threadIdx.x % warp_size;
  Index right = 0, counted = 0;
  const Index stride = static_cast<Index>(gridDim.x) * warps;
  for (Index b = grid_thread() / warp_size; b < batch; b += stride) {
    bool counts_here = false, all_right = true;
    for (Index t = 0; t < length && all_right; ++t) {
      const Index row = t * batch + b;
      if (classes[row] < 0) continue;
      counts_here = true;
      all_right = is_largest(outputs + row * columns, columns, classes[row], lane);
    }
    if (lane > 0) continue;
    right += counts_here && all_right;
    counted += counts_here;
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

/// Adds what `count(gpu, grid, counts)` finds with a warp for each of so many.
template <class Count>
void add_by_blocks(Context& gpu, Index tasks_of_warps, TensorView<double> score, const Count& count) {
  const Index blocks = std::clamp<Index>(blocks_for(tasks_of_warps * warp_size, threads), 1, max_blocks);
  Counts* counts = gpu.scratch<Counts>(static_cast<std::size_t>(blocks));
  count(gpu, {.grid = static_cast<unsigned>(blocks), .block = threads}, counts);
  launch(gpu, add_counts, {.grid = 1, .block = threads}, counts, blocks, score.data());
}

}  // namespace

void count_right(TensorView<const float> outputs, TensorView<const std::int32_t> classes,
                 TensorView<double> score) {
  add_by_blocks(context(outputs.device()), classes.size(), score,
                [&](const Context& gpu, const LaunchShape& shape, Counts* counts) {
                  launch(gpu, count_rows, shape, outputs.data(), classes.data(), classes.size(),
                         outputs.shape()[1], counts);
                });
}

void count_right_sequences(TensorView<const float> outputs, TensorView<const std::int32_t> classes,
                           TensorView<double> score) {
  const Index length = classes.shape()[0], batch = classes.shape()[1];
  add_by_blocks(context(outputs.device()), batch, score,
                [&](const Context& gpu, const LaunchShape& shape, Counts* counts) {
                  launch(gpu, count_sequences, shape, outputs.data(), classes.data(), length, batch,
                         outputs.shape()[2], counts);
                });
}

}  // namespace orthornn::cuda
