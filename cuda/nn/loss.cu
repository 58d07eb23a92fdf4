#include <algorithm>
#include <cassert>
#include <limits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"
#include "cuda/nn/loss.hpp"
#include "orthornn/nn/loss.hpp"
#include "pointwise/loss.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / warp_size;
// Numbers of a row that a lane reads before it computes or writes: for all the compiler knows, what it writes
// may change what it reads.
constexpr unsigned at_once = 8;
// Blocks of a sum at most: their sums are added by one block again.
constexpr Index max_blocks = 1024;

/// Blocks that a multiprocessor must have registers for: while the threads of one row wait for each other,
/// those of others read.
template <unsigned lanes, class T>
constexpr unsigned blocks_at_once = lanes == threads && sizeof(T) == sizeof(float) ? 4 : 1;

/// Threads a row of outputs: one, a warp or a block, as long as each has something to do.
constexpr unsigned lanes_for(Index classes) {
  if (classes > at_once * threads) return threads;
  return classes > 64 ? warp_size : 1;
}

pointwise::LiveRows live_rows(TensorView<const std::int32_t> lengths) {
  return {.lengths = lengths.empty() ? nullptr : lengths.data(), .batch = lengths.size()};
}

pointwise::TargetWeights weights_of(TensorView<const float> weights) {
  return {weights.empty() ? nullptr : weights.data()};
}

/// The sums over the threads of a block, the same in all threads. Once a kernel.
__device__ __forceinline__ BatchLoss block_loss(double sum, double count) {
  __shared__ double sums[warps];
  __shared__ double counts[warps];
  return {block_sum(sum, sums), block_sum(count, counts)};
}

/// With gradients of type G, which may lie where the outputs do if G is T.
template <class T, class G>
struct CrossEntropy {
  const T* outputs;
  /// From the outputs of a row to the next, and from gradients to the next.
  Index stride, gradient_stride;
  /// Added to each row, or null.
  const T* bias;
  const std::int32_t* classes;
  pointwise::TargetWeights weight_of;
  pointwise::LiveRows live;
  Index rows;
  Index class_count;
  /// Or null. What lies between the rows becomes 0.
  G* gradient;
  pointwise::Smoothing<T> smoothing;
  BatchLoss* blocks;
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
    __shared__ T partial[warps];
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
    __shared__ T partial[warps];
    __syncthreads();  // the maximum before has been read
    return block_max(x, partial);
  } else {
    if constexpr (lanes == warp_size) x = warp_max(x);
    return x;
  }
}

/// A row of outputs with their bias, as a lane sees it: its share are packs of neighbours, `at_once` numbers
/// of them in each round.
template <unsigned lanes, unsigned pack, class T>
struct Row {
  static constexpr T nothing = -std::numeric_limits<T>::infinity();

  const T* y;
  /// Or null.
  const T* bias;
  unsigned class_count;

  __device__ __forceinline__ T operator[](Index c) const { return bias == nullptr ? y[c] : y[c] + bias[c]; }

  /// Calls f(first number of x, class) for each pack of a round.
  template <class F>
  static __device__ __forceinline__ void for_packs(unsigned round, F f) {
#pragma unroll
    for (unsigned i = 0; i < at_once / pack; ++i)
      f(i * pack, ((round * (at_once / pack) + i) * lanes + threadIdx.x % lanes) * pack);
  }
  /// What lies beyond the row is -infinity.
  __device__ __forceinline__ void read(unsigned round, T (&x)[at_once]) const {
    for_packs(round, [&](unsigned i, unsigned c) {
      if (c + pack <= class_count) {
        // Where a thread has a row to itself, its next number lies in the same line of L1.
        const Pack<T, pack> numbers = lanes == 1 ? load_pack<pack>(y + c) : load_pack_past_l1<pack>(y + c);
        Pack<T, pack> biases{};
        if (bias != nullptr) biases = load_pack<pack>(bias + c);
#pragma unroll
        for (unsigned j = 0; j < pack; ++j) x[i + j] = numbers.of[j] + biases.of[j];
      } else {
#pragma unroll
        for (unsigned j = 0; j < pack; ++j) x[i + j] = c + j < class_count ? (*this)[c + j] : nothing;
      }
    });
  }
  template <class G>
  __device__ __forceinline__ void write(unsigned round, const G (&x)[at_once], G* to) const {
    for_packs(round, [&](unsigned i, unsigned c) {
      if (c + pack <= class_count) {
        Pack<G, pack> numbers;
#pragma unroll
        for (unsigned j = 0; j < pack; ++j) numbers.of[j] = x[i + j];
        store_pack(numbers, to + c);
      } else {
#pragma unroll
        for (unsigned j = 0; j < pack; ++j) {
          if (c + j < class_count) to[c + j] = x[i + j];
        }
      }
    });
  }
};

/// -log softmax(y + bias)[target] of row y, whose classes the lanes share, and `weight` times its gradient
/// with respect to y if dy is not null.
template <unsigned lanes, unsigned pack, class T, class G>
__device__ double row_loss(const CrossEntropy<T, G>& a, const T* y, G* dy, Index target, T weight) {
  const Row<lanes, pack, T> row{.y = y, .bias = a.bias, .class_count = static_cast<unsigned>(a.class_count)};
  const unsigned rounds = (row.class_count - 1) / (at_once * lanes) + 1;
  // 1. The lane's largest number so far, and the sum of exp(x - largest). While all are -infinity, 0 takes
  // the place of the largest: -infinity minus itself is NaN.
  T lane_largest = row.nothing;
  double total = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    T x[at_once];
    row.read(round, x);
    const T before = lane_largest;
#pragma unroll
    for (const T number : x) lane_largest = lane_largest < number ? number : lane_largest;
    const T next = lane_largest == row.nothing ? T{0} : lane_largest;
    T sum = 0;
#pragma unroll
    for (const T number : x) sum += exp(number - next);
    total = total * static_cast<double>(exp(before - next)) + static_cast<double>(sum);
  }
  // 2. The largest number and the sum of all lanes.
  const T largest = lanes_max<lanes>(lane_largest);
  if (total != 0) total *= static_cast<double>(exp(lane_largest - largest));
  total = lanes_sum<lanes>(total);
  const double loss = log(total) - static_cast<double>(row[target] - largest);
  if (dy == nullptr) return loss;
  // Before anyone writes: the lanes have all read y[target].
  lanes_wait<lanes>();
  // 3. The gradient.
  const T factor = weight * static_cast<T>(1 / total);
  const T of_target = weight * a.smoothing.of_target, of_each = weight * a.smoothing.of_each;
  for (unsigned round = 0; round < rounds; ++round) {
    T x[at_once];
    row.read(round, x);
    G gradient[at_once];
    row.for_packs(round, [&](unsigned i, unsigned c) {
#pragma unroll
      for (unsigned j = 0; j < pack; ++j)
        gradient[i + j] =
            static_cast<G>(factor * exp(x[i + j] - largest) - (c + j == target ? of_target : T{0}) - of_each);
    });
    row.write(round, gradient, dy);
  }
  return loss;
}

template <unsigned lanes, unsigned pack, class T, class G>
__global__ void __launch_bounds__(threads, blocks_at_once<lanes, T>) cross_entropy(CrossEntropy<T, G> a) {
  double sum = 0, count = 0;
  const Index stride = static_cast<Index>(gridDim.x) * (threads / lanes);
  for (Index row = grid_thread() / lanes; row < a.rows; row += stride) {
    const T* const y = a.outputs + row * a.stride;
    G* const dy = a.gradient == nullptr ? nullptr : a.gradient + row * a.gradient_stride;
    const float weight = a.live(row) ? a.weight_of(row) : 0.0F;
    const Index target = weight != 0 ? a.classes[row] : -1;
    const bool first_lane = threadIdx.x % lanes == 0;
    const bool counts = target >= 0 && target < a.class_count;
    for (Index c = (counts ? a.class_count : 0) + threadIdx.x % lanes; dy != nullptr && c < a.gradient_stride;
         c += lanes)
      dy[c] = static_cast<G>(T{0});
    if (counts) {
      const double loss = row_loss<lanes, pack>(a, y, dy, target, static_cast<T>(weight));
      if (first_lane) {
        sum += static_cast<double>(weight) * loss;
        count += static_cast<double>(weight);
      }
      continue;
    }
    if (target >= a.class_count && first_lane) {
      report_fault(a.faults, Fault::class_out_of_range, row);
      sum = std::numeric_limits<double>::quiet_NaN();
    }
  }
  const BatchLoss found = block_loss(sum, count);
  if (threadIdx.x == 0) a.blocks[blockIdx.x] = found;
}

/// Whether each row begins where a pack of so many numbers may.
template <int count, class T, class G>
bool rows_are_packs(const CrossEntropy<T, G>& a) {
  return is_aligned_for<count>(a.outputs) && is_aligned_for<count>(a.bias) &&
         is_aligned_for<count>(a.gradient) && a.stride % count == 0 && a.gradient_stride % count == 0;
}

template <class T>
struct SquaredError {
  pointwise::SquaredError<T> of_entry;
  pointwise::LiveRows live;
  Index rows;
  Index columns;
  BatchLoss* blocks;
};

template <class T>
__global__ void squared_error(SquaredError<T> a) {
  double sum = 0, count = 0;
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = grid_thread(); i < a.rows * a.columns; i += stride) {
    // Without lengths there is nothing to divide for.
    if (a.live.lengths != nullptr && !a.live(i / a.columns)) {
      if (a.of_entry.gradient) a.of_entry.outputs[i] = 0;
      continue;
    }
    sum += a.of_entry(i);
    count += static_cast<double>(a.of_entry.weight_of(i));
  }
  const BatchLoss found = block_loss(sum, count);
  if (threadIdx.x == 0) a.blocks[blockIdx.x] = found;
}

/// The sum of what the blocks found, by one block.
__global__ void add_blocks(const BatchLoss* blocks, Index block_count, BatchLoss* value) {
  double sum = 0, count = 0;
  for (Index i = threadIdx.x; i < block_count; i += blockDim.x) {
    sum += blocks[i].sum;
    count += blocks[i].count;
  }
  const BatchLoss found = block_loss(sum, count);
  if (threadIdx.x == 0) *value = found;
}

/// Blocks for items of which each block takes so many at once. At least 1: an empty grid is no launch.
Index blocks_of(Index items, unsigned at_a_time) {
  return std::clamp<Index>(blocks_for(items, at_a_time), 1, max_blocks);
}

/// The two doubles of `value`, as what they are.
BatchLoss* batch_loss(TensorView<double> value) {
  static_assert(sizeof(BatchLoss) == 2 * sizeof(double));
  return reinterpret_cast<BatchLoss*>(value.data());
}

template <class T, class G>
void launch_cross_entropy(MatrixView<const T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<const std::int32_t> lengths,
                          TensorView<double> value, MatrixView<G> gradient, double smoothing,
                          TensorView<const float> weights) {
  Context& gpu = context(outputs.device);
  const Index class_count = outputs.rows, rows = outputs.cols;
  // Targets are int32, so more classes than these could not be named. A kernel counts them in 32 bits.
  assert(class_count <= std::numeric_limits<std::int32_t>::max());
  const unsigned lanes = lanes_for(class_count);
  const Index blocks = blocks_of(rows, threads / lanes);
  const CrossEntropy<T, G> a{.outputs = outputs.data,
                             .stride = outputs.stride,
                             .gradient_stride = gradient.stride,
                             .bias = bias.data(),
                             .classes = classes.data(),
                             .weight_of = weights_of(weights),
                             .live = live_rows(lengths),
                             .rows = rows,
                             .class_count = class_count,
                             .gradient = gradient.data,
                             .smoothing = {smoothing, class_count},
                             .blocks = gpu.scratch<BatchLoss>(static_cast<std::size_t>(blocks)),
                             .faults = gpu.faults()};
  const auto one_lane = rows_are_packs<2>(a) ? cross_entropy<1, 2, T, G> : cross_entropy<1, 1, T, G>;
  const auto block = rows_are_packs<numbers_of_word<T>>(a) ? cross_entropy<threads, numbers_of_word<T>, T, G>
                                                           : cross_entropy<threads, 1, T, G>;
  const auto kernel = lanes == 1 ? one_lane : lanes == warp_size ? cross_entropy<warp_size, 1, T, G> : block;
  launch(gpu, kernel, {.grid = static_cast<unsigned>(blocks), .block = threads}, a);
  launch(gpu, add_blocks, {.grid = 1, .block = threads}, a.blocks, blocks, batch_loss(value));
}

}  // namespace

template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                           double smoothing, TensorView<const float> weights) {
  const MatrixView<T> y = columns_of(outputs);
  launch_cross_entropy<T, T>(y, {}, classes, lengths, value, gradient ? y : MatrixView<T>(), smoothing,
                             weights);
}

template <class T, class G>
void biased_cross_entropy(MatrixView<const T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<double> value,
                          MatrixView<G> gradient, double smoothing) {
  launch_cross_entropy<T, G>(outputs, bias, classes, {}, value, gradient, smoothing, /*weights=*/{});
}

template <class T>
void error_of_numbers(TensorView<T> outputs, TensorView<const float> values,
                      TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                      TensorView<const float> weights, bool with_absolute) {
  Context& gpu = context(outputs.device());
  const Index blocks = blocks_of(outputs.size(), threads);
  const Index columns = outputs.shape()[-1];
  const SquaredError<T> a{
      .of_entry = {outputs.data(), values.data(), weights_of(weights), gradient, with_absolute},
      .live = live_rows(lengths),
      .rows = columns == 0 ? 0 : outputs.size() / columns,
      .columns = columns,
      .blocks = gpu.scratch<BatchLoss>(static_cast<std::size_t>(blocks))};
  launch(gpu, squared_error<T>, {.grid = static_cast<unsigned>(blocks), .block = threads}, a);
  launch(gpu, add_blocks, {.grid = 1, .block = threads}, a.blocks, blocks, batch_loss(value));
}

#define ORTHORNN_INSTANTIATE_BIASED(T, G)                                                      \
  template void biased_cross_entropy<T, G>(MatrixView<const T>, TensorView<const T>,           \
                                           TensorView<const std::int32_t>, TensorView<double>, \
                                           MatrixView<G>, double);
#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void softmax_cross_entropy<T>(TensorView<T>, TensorView<const std::int32_t>,                     \
                                         TensorView<const std::int32_t>, TensorView<double>, bool, double,  \
                                         TensorView<const float>);                                          \
  template void error_of_numbers<T>(TensorView<T>, TensorView<const float>, TensorView<const std::int32_t>, \
                                    TensorView<double>, bool, TensorView<const float>, bool);               \
  ORTHORNN_INSTANTIATE_BIASED(T, T)
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
ORTHORNN_INSTANTIATE_BIASED(float, bfloat16)
#undef ORTHORNN_INSTANTIATE
#undef ORTHORNN_INSTANTIATE_BIASED

}  // namespace orthornn::cuda
