#include <algorithm>
#include <limits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/nn/loss.hpp"
#include "orthornn/nn/loss.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
// Threads of a row of very many classes: with 256 a row of 24,852 waited for memory 97 times in each of three
// passes.
constexpr unsigned most_threads = 1024;
constexpr unsigned most_warps = most_threads / warp_size;
// Blocks of a sum at most: their sums are added by one block again.
constexpr Index max_blocks = 1024;

/// Threads a row of outputs: one, a warp or a block, as long as each has something to do.
constexpr unsigned lanes_for(Index classes) {
  for (const unsigned lanes : {most_threads, threads}) {
    if (classes > 8 * lanes) return lanes;
  }
  return classes > 64 ? warp_size : 1;
}

/// Threads of a block whose rows have so many lanes.
constexpr unsigned block_for(unsigned lanes) { return lanes > threads ? lanes : threads; }

/// Which rows of outputs are steps of a sequence, and which are padding: row t B + b is padding from
/// t = lengths[b] on. Without lengths there is no padding.
struct LiveRows {
  const std::int32_t* lengths;
  Index batch;

  __device__ __forceinline__ bool operator()(Index row) const {
    return lengths == nullptr || row / batch < lengths[row % batch];
  }
};

LiveRows live_rows(TensorView<const std::int32_t> lengths) {
  return {.lengths = lengths.empty() ? nullptr : lengths.data(), .batch = lengths.size()};
}

/// What a block found.
struct BlockLoss {
  double sum;
  Index count;
};

template <class T>
struct CrossEntropy {
  T* outputs;
  /// Added to each row, or null.
  const T* bias;
  const std::int32_t* classes;
  LiveRows live;
  Index rows;
  Index class_count;
  bool gradient;
  /// What is subtracted from the gradient of the target and from that of each class.
  T of_target, of_each;
  BlockLoss* blocks;
  FaultWord* faults;
};

/// Waits for the threads of a row.
template <unsigned lanes>
__device__ __forceinline__ void lanes_wait() {
  if constexpr (lanes == warp_size) __syncwarp();
  if constexpr (lanes >= threads) __syncthreads();
}

template <unsigned lanes, class T>
__device__ __forceinline__ T lanes_sum(T x) {
  if constexpr (lanes >= threads) {
    __shared__ T partial[most_warps];
    __syncthreads();  // the sum before has been read
    return block_sum(x, partial);
  } else {
    if constexpr (lanes == warp_size) x = warp_sum(x);
    return x;
  }
}

template <unsigned lanes, class T>
__device__ __forceinline__ T lanes_max(T x) {
  if constexpr (lanes >= threads) {
    __shared__ T partial[most_warps];
    __syncthreads();  // the maximum before has been read
    return block_max(x, partial);
  } else {
    if constexpr (lanes == warp_size) x = warp_max(x);
    return x;
  }
}

/// -log softmax(y + bias)[target] of row y, whose classes the lanes share; with `gradient`, y becomes the
/// gradient with respect to it.
template <unsigned lanes, class T>
__device__ double row_loss(const CrossEntropy<T>& a, T* __restrict__ y, const T* __restrict__ bias,
                           Index target) {
  const Index lane = threadIdx.x % lanes, class_count = a.class_count;
  const auto value = [=](Index c) { return bias == nullptr ? y[c] : y[c] + bias[c]; };
  T largest = -std::numeric_limits<T>::infinity();
#pragma unroll 4
  for (Index c = lane; c < class_count; c += lanes) {
    const T x = value(c);
    largest = largest < x ? x : largest;
  }
  largest = lanes_max<lanes>(largest);
  double total = 0;
#pragma unroll 4
  for (Index c = lane; c < class_count; c += lanes) total += static_cast<double>(exp(value(c) - largest));
  total = lanes_sum<lanes>(total);
  const double loss = log(total) - static_cast<double>(value(target) - largest);
  if (!a.gradient) return loss;
  // Before anyone writes: the lanes have all read y[target].
  lanes_wait<lanes>();
  const T factor = static_cast<T>(1 / total);
#pragma unroll 4
  for (Index c = lane; c < class_count; c += lanes) {
    y[c] = factor * exp(value(c) - largest) - (c == target ? a.of_target : T{0}) - a.of_each;
  }
  return loss;
}

template <unsigned lanes, class T>
__global__ void __launch_bounds__(block_for(lanes)) cross_entropy(CrossEntropy<T> a) {
  __shared__ Index index_partial[most_warps];
  __shared__ double partial[most_warps];
  double sum = 0;
  Index count = 0;
  const Index stride = static_cast<Index>(gridDim.x) * (block_for(lanes) / lanes);
  for (Index row = grid_thread() / lanes; row < a.rows; row += stride) {
    T* y = a.outputs + row * a.class_count;
    const Index target = a.live(row) ? a.classes[row] : -1;
    const bool first_lane = threadIdx.x % lanes == 0;
    if (target >= 0 && target < a.class_count) {
      const double loss = row_loss<lanes>(a, y, a.bias, target);
      if (first_lane) {
        sum += loss;
        ++count;
      }
      continue;
    }
    if (target >= a.class_count && first_lane) {
      report_fault(a.faults, Fault::class_out_of_range, row);
      sum = std::numeric_limits<double>::quiet_NaN();
    }
    for (Index c = threadIdx.x % lanes; a.gradient && c < a.class_count; c += lanes) y[c] = 0;
  }
  sum = block_sum(sum, partial);
  count = block_sum(count, index_partial);
  if (threadIdx.x == 0) a.blocks[blockIdx.x] = {sum, count};
}

template <class T>
struct SquaredError {
  T* outputs;
  const float* values;
  LiveRows live;
  Index rows;
  Index columns;
  bool gradient;
  BlockLoss* blocks;
};

template <class T>
__global__ void squared_error(SquaredError<T> a) {
  __shared__ Index index_partial[most_warps];
  __shared__ double partial[most_warps];
  double sum = 0;
  Index count = 0;
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = grid_thread(); i < a.rows * a.columns; i += stride) {
    // Without lengths there is nothing to divide for.
    if (a.live.lengths != nullptr && !a.live(i / a.columns)) {
      if (a.gradient) a.outputs[i] = 0;
      continue;
    }
    const double difference = static_cast<double>(a.outputs[i]) - static_cast<double>(a.values[i]);
    sum += difference * difference;
    ++count;
    if (a.gradient) a.outputs[i] = static_cast<T>(2 * difference);
  }
  sum = block_sum(sum, partial);
  count = block_sum(count, index_partial);
  if (threadIdx.x == 0) a.blocks[blockIdx.x] = {sum, count};
}

/// The sum of what the blocks found, by one block.
__global__ void add_blocks(const BlockLoss* blocks, Index block_count, BatchLoss* value) {
  __shared__ Index index_partial[most_warps];
  __shared__ double partial[most_warps];
  double sum = 0;
  Index count = 0;
  for (Index i = threadIdx.x; i < block_count; i += blockDim.x) {
    sum += blocks[i].sum;
    count += blocks[i].count;
  }
  sum = block_sum(sum, partial);
  count = block_sum(count, index_partial);
  if (threadIdx.x > 0) return;
  value->sum = sum;
  value->count = static_cast<double>(count);
}

/// At least 1: an empty grid is no launch.
Index blocks_of(Index items) { return std::clamp<Index>(blocks_for(items, threads), 1, max_blocks); }

/// The two doubles of `value`, as what they are.
BatchLoss* batch_loss(TensorView<double> value) {
  static_assert(sizeof(BatchLoss) == 2 * sizeof(double));
  return reinterpret_cast<BatchLoss*>(value.data());
}

}  // namespace

template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                           double smoothing, TensorView<const T> bias) {
  Context& gpu = context(outputs.device());
  const Index class_count = outputs.shape()[-1];
  const Index rows = classes.size();
  const unsigned lanes = lanes_for(class_count);
  const unsigned block = block_for(lanes);
  const Index blocks = std::clamp<Index>(blocks_for(rows, block / lanes), 1, max_blocks);
  const CrossEntropy<T> a{.outputs = outputs.data(),
                          .bias = bias.data(),
                          .classes = classes.data(),
                          .live = live_rows(lengths),
                          .rows = rows,
                          .class_count = class_count,
                          .gradient = gradient,
                          .of_target = static_cast<T>(1 - smoothing),
                          .of_each = static_cast<T>(smoothing / static_cast<double>(class_count)),
                          .blocks = gpu.scratch<BlockLoss>(static_cast<std::size_t>(blocks)),
                          .faults = gpu.faults()};
  const auto kernel = lanes == 1           ? cross_entropy<1, T>
                      : lanes == warp_size ? cross_entropy<warp_size, T>
                      : lanes == threads   ? cross_entropy<threads, T>
                                           : cross_entropy<most_threads, T>;
  launch(gpu, kernel, {.grid = static_cast<unsigned>(blocks), .block = block}, a);
  launch(gpu, add_blocks, {.grid = 1, .block = threads}, a.blocks, blocks, batch_loss(value));
}

template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                        TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient) {
  Context& gpu = context(outputs.device());
  const Index blocks = blocks_of(outputs.size());
  const Index columns = outputs.shape()[-1];
  const SquaredError<T> a{.outputs = outputs.data(),
                          .values = values.data(),
                          .live = live_rows(lengths),
                          .rows = columns == 0 ? 0 : outputs.size() / columns,
                          .columns = columns,
                          .gradient = gradient,
                          .blocks = gpu.scratch<BlockLoss>(static_cast<std::size_t>(blocks))};
  launch(gpu, squared_error<T>, {.grid = static_cast<unsigned>(blocks), .block = threads}, a);
  launch(gpu, add_blocks, {.grid = 1, .block = threads}, a.blocks, blocks, batch_loss(value));
}

#define ORTHORNN_INSTANTIATE(T)                                                                            \
  template void softmax_cross_entropy<T>(TensorView<T>, TensorView<const std::int32_t>,                    \
                                         TensorView<const std::int32_t>, TensorView<double>, bool, double, \
                                         TensorView<const T>);                                             \
  template void mean_squared_error<T>(TensorView<T>, TensorView<const float>,                              \
                                      TensorView<const std::int32_t>, TensorView<double>, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
