#include <algorithm>
#include <limits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/nn/loss.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / warp_size;
// Blocks of a sum at most: their sums are added by one block again.
constexpr Index max_blocks = 1024;

/// Threads a row of outputs: a warp where it gives all its threads something to do.
constexpr unsigned lanes_for(Index classes) { return classes > 64 ? warp_size : 1; }

/// Number of classes that count in the block's part of them.
__global__ void count_targets(const std::int32_t* classes, Index rows, int* counts) {
  __shared__ int partial[warps];
  int count = 0;
  for (Index i = grid_thread(); i < rows; i += static_cast<Index>(gridDim.x) * blockDim.x) {
    count += classes[i] >= 0;
  }
  count = block_sum(count, partial);
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

template <class T>
struct CrossEntropy {
  T* outputs;
  const std::int32_t* classes;
  Index rows;
  Index class_count;
  const int* counts;
  Index count_blocks;
  bool gradient;
  double* sums;
  FaultWord* faults;
};

template <unsigned lanes, class T>
__device__ __forceinline__ T lanes_sum(T x) {
  if constexpr (lanes == warp_size) return warp_sum(x);
  return x;
}

template <unsigned lanes, class T>
__device__ __forceinline__ T lanes_max(T x) {
  if constexpr (lanes == warp_size) return warp_max(x);
  return x;
}

/// -log softmax(y)[target] of a row, whose classes the lanes share; with `gradient`, y becomes `scale` times
/// the gradient with respect to it.
template <unsigned lanes, class T>
__device__ double row_loss(T* y, Index class_count, Index target, double scale, bool gradient) {
  const Index lane = threadIdx.x % lanes;
  T largest = -std::numeric_limits<T>::infinity();
  for (Index c = lane; c < class_count; c += lanes) largest = largest < y[c] ? y[c] : largest;
  largest = lanes_max<lanes>(largest);
  double total = 0;
  for (Index c = lane; c < class_count; c += lanes) total += static_cast<double>(exp(y[c] - largest));
  total = lanes_sum<lanes>(total);
  const double loss = log(total) - static_cast<double>(y[target] - largest);
  if (!gradient) return loss;
  // Before anyone writes: the lanes have all read y[target].
  if constexpr (lanes == warp_size) __syncwarp();
  const T factor = static_cast<T>(scale / total);
  for (Index c = lane; c < class_count; c += lanes) {
    y[c] = factor * exp(y[c] - largest) - (c == target ? static_cast<T>(scale) : T{0});
  }
  return loss;
}

template <unsigned lanes, class T>
__global__ void cross_entropy(CrossEntropy<T> a) {
  __shared__ int int_partial[warps];
  __shared__ double partial[warps];
  int part = 0;
  for (Index i = threadIdx.x; i < a.count_blocks; i += blockDim.x) part += a.counts[i];
  const int counted = block_sum(part, int_partial);
  const double scale = 1.0 / counted;
  double sum = 0;
  const Index stride = static_cast<Index>(gridDim.x) * (threads / lanes);
  for (Index row = grid_thread() / lanes; row < a.rows; row += stride) {
    T* y = a.outputs + row * a.class_count;
    const Index target = a.classes[row];
    const bool first_lane = threadIdx.x % lanes == 0;
    if (target >= 0 && target < a.class_count) {
      const double loss = row_loss<lanes>(y, a.class_count, target, scale, a.gradient);
      if (first_lane) sum += loss;
      continue;
    }
    if (target >= a.class_count && first_lane) {
      report_fault(a.faults, Fault::class_out_of_range, row);
      sum = std::numeric_limits<double>::quiet_NaN();
    }
    for (Index c = threadIdx.x % lanes; a.gradient && c < a.class_count; c += lanes) y[c] = 0;
  }
  sum = block_sum(sum, partial);
  if (threadIdx.x != 0) return;
  a.sums[blockIdx.x] = scale * sum;
  if (counted > 0 || blockIdx.x > 0) return;
  report_fault(a.faults, Fault::no_target_counts, 0);
  a.sums[0] = std::numeric_limits<double>::quiet_NaN();
}

template <class T>
__global__ void squared_error(T* outputs, const float* values, Index count, bool gradient, double* sums) {
  __shared__ double partial[warps];
  const double scale = 1.0 / static_cast<double>(count);
  double sum = 0;
  for (Index i = grid_thread(); i < count; i += static_cast<Index>(gridDim.x) * blockDim.x) {
    const double difference = static_cast<double>(outputs[i]) - static_cast<double>(values[i]);
    sum += difference * difference;
    if (gradient) outputs[i] = static_cast<T>(2 * scale * difference);
  }
  sum = block_sum(sum, partial);
  if (threadIdx.x == 0) sums[blockIdx.x] = scale * sum;
}

/// The sum of the blocks' sums, by one block.
__global__ void add_sums(const double* sums, Index count, double* value) {
  __shared__ double partial[warps];
  double sum = 0;
  for (Index i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = block_sum(sum, partial);
  if (threadIdx.x == 0) *value = sum;
}

/// One at least, for those who add nothing up.
Index blocks_of(Index items) { return std::clamp<Index>(blocks_for(items, threads), 1, max_blocks); }

}  // namespace

template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<double> value, bool gradient) {
  Context& gpu = context(outputs.device());
  const Index class_count = outputs.shape()[-1];
  const Index rows = classes.size();
  const unsigned lanes = lanes_for(class_count);
  const Index count_blocks = blocks_of(rows);
  const Index blocks = blocks_of(rows * lanes);
  // First the sums in double, for their alignment.
  double* sums = gpu.scratch<double>(static_cast<std::size_t>(blocks + count_blocks));
  int* counts = reinterpret_cast<int*>(sums + blocks);
  launch(gpu, count_targets, {.grid = static_cast<unsigned>(count_blocks), .block = threads}, classes.data(),
         rows, counts);
  const CrossEntropy<T> a{.outputs = outputs.data(),
                          .classes = classes.data(),
                          .rows = rows,
                          .class_count = class_count,
                          .counts = counts,
                          .count_blocks = count_blocks,
                          .gradient = gradient,
                          .sums = sums,
                          .faults = gpu.faults()};
  launch(gpu, lanes == 1 ? cross_entropy<1, T> : cross_entropy<warp_size, T>,
         {.grid = static_cast<unsigned>(blocks), .block = threads}, a);
  launch(gpu, add_sums, {.grid = 1, .block = threads}, sums, blocks, value.data());
}

template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values, TensorView<double> value,
                        bool gradient) {
  Context& gpu = context(outputs.device());
  const Index blocks = blocks_of(outputs.size());
  double* sums = gpu.scratch<double>(static_cast<std::size_t>(blocks));
  launch(gpu, squared_error<T>, {.grid = static_cast<unsigned>(blocks), .block = threads}, outputs.data(),
         values.data(), outputs.size(), gradient, sums);
  launch(gpu, add_sums, {.grid = 1, .block = threads}, sums, blocks, value.data());
}

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void softmax_cross_entropy<T>(TensorView<T>, TensorView<const std::int32_t>, TensorView<double>, \
                                         bool);                                                             \
  template void mean_squared_error<T>(TensorView<T>, TensorView<const float>, TensorView<double>, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
