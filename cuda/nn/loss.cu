#include <algorithm>
#include <limits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/nn/loss.hpp"
#include "orthornn/nn/loss.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / warp_size;
// Blocks of a sum at most: their sums are added by one block again.
constexpr Index max_blocks = 1024;

/// Threads a row of outputs: a warp where it gives all its threads something to do.
constexpr unsigned lanes_for(Index classes) { return classes > 64 ? warp_size : 1; }

/// Which rows of outputs are steps of a sequence, and which are padding: row t B + b is padding from
/// t = lengths[b] on. Without lengths there is no padding.
struct LiveRows {
  const std::int32_t* lengths;
  Index batch;

  __device__ __forceinline__ bool operator()(Index row) const {
    return lengths == nullptr || row / batch < lengths[row % batch];
  }
  /// Of `rows` rows, this thread's share of the live ones.
  __device__ __forceinline__ Index share_of_count(Index rows) const {
    if (lengths == nullptr) return threadIdx.x == 0 ? rows : 0;
    const Index steps = rows / batch;
    Index count = 0;
    for (Index b = threadIdx.x; b < batch; b += blockDim.x) {
      const Index length = lengths[b];
      count += length < 0 ? 0 : length < steps ? length : steps;
    }
    return count;
  }
};

LiveRows live_rows(TensorView<const std::int32_t> lengths) {
  return {.lengths = lengths.empty() ? nullptr : lengths.data(), .batch = lengths.size()};
}

/// Number of classes that count in the block's part of them.
__global__ void count_targets(const std::int32_t* classes, LiveRows live, Index rows, Index* counts) {
  __shared__ Index partial[warps];
  Index count = 0;
  for (Index i = grid_thread(); i < rows; i += static_cast<Index>(gridDim.x) * blockDim.x) {
    count += classes[i] >= 0 && live(i);
  }
  count = block_sum(count, partial);
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

template <class T>
struct CrossEntropy {
  T* outputs;
  const std::int32_t* classes;
  LiveRows live;
  Index rows;
  Index class_count;
  const Index* counts;
  Index count_blocks;
  bool gradient;
  double* sums;
  BatchLoss* value;
  FaultWord* faults;
};

/// Reports it, and is the loss then.
__device__ __forceinline__ double nothing_counts(FaultWord* faults) {
  report_fault(faults, Fault::no_target_counts, 0);
  return std::numeric_limits<double>::quiet_NaN();
}

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
  __shared__ Index index_partial[warps];
  __shared__ double partial[warps];
  Index part = 0;
  for (Index i = threadIdx.x; i < a.count_blocks; i += blockDim.x) part += a.counts[i];
  const Index counted = block_sum(part, index_partial);
  const double scale = 1.0 / static_cast<double>(counted);
  double sum = 0;
  const Index stride = static_cast<Index>(gridDim.x) * (threads / lanes);
  for (Index row = grid_thread() / lanes; row < a.rows; row += stride) {
    T* y = a.outputs + row * a.class_count;
    const Index target = a.live(row) ? a.classes[row] : -1;
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
  if (blockIdx.x > 0) return;
  a.value->count = static_cast<double>(counted);
  if (counted == 0) a.sums[0] = nothing_counts(a.faults);
}

template <class T>
struct SquaredError {
  T* outputs;
  const float* values;
  LiveRows live;
  Index rows;
  Index columns;
  bool gradient;
  double* sums;
  BatchLoss* value;
  FaultWord* faults;
};

template <class T>
__global__ void squared_error(SquaredError<T> a) {
  __shared__ Index index_partial[warps];
  __shared__ double partial[warps];
  const double counted =
      static_cast<double>(block_sum(a.live.share_of_count(a.rows), index_partial) * a.columns);
  const double scale = 1.0 / counted;
  double sum = 0;
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = grid_thread(); i < a.rows * a.columns; i += stride) {
    // Without lengths there is nothing to divide for.
    if (a.live.lengths != nullptr && !a.live(i / a.columns)) {
      if (a.gradient) a.outputs[i] = 0;
      continue;
    }
    const double difference = static_cast<double>(a.outputs[i]) - static_cast<double>(a.values[i]);
    sum += difference * difference;
    if (a.gradient) a.outputs[i] = static_cast<T>(2 * scale * difference);
  }
  sum = block_sum(sum, partial);
  if (threadIdx.x != 0) return;
  a.sums[blockIdx.x] = scale * sum;
  if (blockIdx.x > 0) return;
  a.value->count = counted;
  if (counted == 0) a.sums[0] = nothing_counts(a.faults);
}

/// The sum of the blocks' sums, by one block.
__global__ void add_sums(const double* sums, Index count, BatchLoss* value) {
  __shared__ double partial[warps];
  double sum = 0;
  for (Index i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = block_sum(sum, partial);
  if (threadIdx.x == 0) value->mean = sum;
}

/// One at least, for those who add nothing up.
Index blocks_of(Index items) { return std::clamp<Index>(blocks_for(items, threads), 1, max_blocks); }

/// The two doubles of `value`, as what they are.
BatchLoss* batch_loss(TensorView<double> value) {
  static_assert(sizeof(BatchLoss) == 2 * sizeof(double));
  return reinterpret_cast<BatchLoss*>(value.data());
}

}  // namespace

template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient) {
  Context& gpu = context(outputs.device());
  const Index class_count = outputs.shape()[-1];
  const Index rows = classes.size();
  const unsigned lanes = lanes_for(class_count);
  const Index count_blocks = blocks_of(rows);
  const Index blocks = blocks_of(rows * lanes);
  double* sums = gpu.scratch<double>(static_cast<std::size_t>(blocks + count_blocks));
  static_assert(sizeof(Index) == sizeof(double));
  Index* counts = reinterpret_cast<Index*>(sums + blocks);
  const LiveRows live = live_rows(lengths);
  launch(gpu, count_targets, {.grid = static_cast<unsigned>(count_blocks), .block = threads}, classes.data(),
         live, rows, counts);
  const CrossEntropy<T> a{.outputs = outputs.data(),
                          .classes = classes.data(),
                          .live = live,
                          .rows = rows,
                          .class_count = class_count,
                          .counts = counts,
                          .count_blocks = count_blocks,
                          .gradient = gradient,
                          .sums = sums,
                          .value = batch_loss(value),
                          .faults = gpu.faults()};
  launch(gpu, lanes == 1 ? cross_entropy<1, T> : cross_entropy<warp_size, T>,
         {.grid = static_cast<unsigned>(blocks), .block = threads}, a);
  launch(gpu, add_sums, {.grid = 1, .block = threads}, sums, blocks, a.value);
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
                          .sums = gpu.scratch<double>(static_cast<std::size_t>(blocks)),
                          .value = batch_loss(value),
                          .faults = gpu.faults()};
  launch(gpu, squared_error<T>, {.grid = static_cast<unsigned>(blocks), .block = threads}, a);
  launch(gpu, add_sums, {.grid = 1, .block = threads}, a.sums, blocks, a.value);
}

#define ORTHORNN_INSTANTIATE(T)                                                                     \
  template void softmax_cross_entropy<T>(TensorView<T>, TensorView<const std::int32_t>,             \
                                         TensorView<const std::int32_t>, TensorView<double>, bool); \
  template void mean_squared_error<T>(TensorView<T>, TensorView<const float>,                       \
                                      TensorView<const std::int32_t>, TensorView<double>, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
