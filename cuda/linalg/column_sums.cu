#include <algorithm>

#include "cuda/core/device.hpp"
#include "cuda/core/for_each_entry.cuh"
#include "cuda/linalg/column_sums.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
// Columns that a thread reads before it sums, where columns have inputs.
constexpr int columns_at_once = 4;
// Symbols that a block keeps sums of: 32 KiB of shared memory in double.
constexpr Index symbols_at_once = 16;
// Columns of a block at least: fewer cost more partial sums than they save time, where the blocks fill the
// GPU.
constexpr Index min_columns = 512;
// Blocks that fill a GPU. Not that of this machine: the order of the sums depends on the sizes alone.
constexpr Index enough_blocks = 256;
// Columns of a block at least where they do not fill it: 768 columns of 1024 rows took two blocks of columns
// 20 us, for each thread had 128 columns one after the other.
constexpr Index fewest_columns = 32;
constexpr Index max_partial_sums = Index{1} << 24;
// CUDA's limit.
constexpr Index max_blocks_along_z = 65'535;

/// Sums in T of numbers of type G. The sums have numbers: total, signed total, input or symbol 0, 1, ..
template <class T, class G>
struct Arguments {
  const G* g;
  /// From column to column of g.
  Index stride;
  const T* h;
  const std::int32_t* symbols;
  const T* inputs;
  int input_count;
  Index rows;
  Index columns;
  Index columns_of_block;
  Index symbol_count;
  /// [rows] each, or null
  T* total;
  T* signed_total;
  /// [rows, symbol_count]
  T* by_symbol;
  /// [rows, input_count]
  T* by_input;
  Index sum_count;
  /// [blocks, sum_count, rows]
  T* partial;
};

/// Adds x over threadIdx.y, in order; the result is that of threadIdx.y = 0. `shared` holds a number a
/// thread.
template <class T>
__device__ T sum_over_y(T x, T* shared) {
  __syncthreads();
  shared[threadIdx.y * blockDim.x + threadIdx.x] = x;
  __syncthreads();
  T sum = 0;
  if (threadIdx.y == 0) {
    for (unsigned y = 0; y < blockDim.y; ++y) sum += shared[y * blockDim.x + threadIdx.x];
  }
  return sum;
}

/// Block (i, j, k): columns of range i, rows of range j, symbols of range first_range + k; range 0 takes the
/// totals.
template <bool has_inputs, class T, class G>
__global__ void partial_sums(Arguments<T, G> a, Index first_range) {
  __shared__ T shared[threads];
  T* by_symbol = reinterpret_cast<T*>(dynamic_shared_memory());
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const Index row = static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x;
  const Index first_symbol = (first_range + blockIdx.z) * symbols_at_once;
  const Index last_symbol =
      first_symbol + symbols_at_once < a.symbol_count ? first_symbol + symbols_at_once : a.symbol_count;
  const bool totals =
      first_symbol == 0 && (a.total != nullptr || a.signed_total != nullptr || a.input_count > 0);
  for (Index k = first_symbol; k < last_symbol; ++k) by_symbol[(k - first_symbol) * threads + thread] = 0;

  T total = 0, signed_total = 0, by_input[ColumnSums<T>::most_inputs] = {};
  const Index first = blockIdx.x * a.columns_of_block;
  const Index last = first + a.columns_of_block < a.columns ? first + a.columns_of_block : a.columns;
  if (has_inputs && row < a.rows) {
    // All loads of some columns first: otherwise each would wait for the sums before it.
    for (Index j = first + threadIdx.y; j < last; j += columns_at_once * blockDim.y) {
      T gradient[columns_at_once], state[columns_at_once] = {}, input[columns_at_once];
#pragma unroll
      for (int c = 0; c < columns_at_once; ++c) {
        const Index own = j + c * blockDim.y;
        gradient[c] = own < last ? static_cast<T>(a.g[own * a.stride + row]) : T{0};
        if (a.signed_total != nullptr && own < last) state[c] = a.h[own * a.rows + row];
        input[c] = own < last ? a.inputs[own * a.input_count] : T{0};
      }
#pragma unroll
      for (int c = 0; c < columns_at_once; ++c) by_input[0] += gradient[c] * input[c];
#pragma unroll
      for (int i = 1; i < ColumnSums<T>::most_inputs; ++i) {
        if (i >= a.input_count) break;
#pragma unroll
        for (int c = 0; c < columns_at_once; ++c) {
          const Index own = j + c * blockDim.y;
          if (own < last) by_input[i] += gradient[c] * a.inputs[own * a.input_count + i];
        }
      }
#pragma unroll
      for (int c = 0; c < columns_at_once; ++c) {
        total += gradient[c];
        signed_total += copysign(gradient[c], gradient[c] * state[c]);
      }
    }
  } else if (row < a.rows) {
#pragma unroll 4
    for (Index j = first + threadIdx.y; j < last; j += blockDim.y) {
      const Index symbol = a.symbols == nullptr ? -1 : a.symbols[j];
      const bool mine = symbol >= first_symbol && symbol < last_symbol;
      if (!totals && !mine) continue;
      const T gradient = static_cast<T>(a.g[j * a.stride + row]);
      total += gradient;
      if (a.signed_total != nullptr && totals)
        signed_total += copysign(gradient, gradient * a.h[j * a.rows + row]);
      if (mine) by_symbol[(symbol - first_symbol) * threads + thread] += gradient;
    }
  }

  T* out = a.partial + blockIdx.x * a.sum_count * a.rows + row;
  const bool writes = threadIdx.y == 0 && row < a.rows;
  if (a.total != nullptr && totals) {
    const T sum = sum_over_y(total, shared);
    if (writes) *out = sum;
  }
  if (a.total != nullptr) out += a.rows;
  if (a.signed_total != nullptr && totals) {
    const T sum = sum_over_y(signed_total, shared);
    if (writes) *out = sum;
  }
  if (a.signed_total != nullptr) out += a.rows;
#pragma unroll
  for (int i = 0; has_inputs && i < ColumnSums<T>::most_inputs; ++i) {
    if (i >= a.input_count) break;
    const T sum = sum_over_y(by_input[i], shared);
    if (writes) out[i * a.rows] = sum;
  }
  for (Index k = first_symbol; k < last_symbol; ++k) {
    const T sum = sum_over_y(by_symbol[(k - first_symbol) * threads + thread], shared);
    if (writes) out[k * a.rows] = sum;
  }
}

/// Adds the blocks' sums, each threadIdx.y a range of them.
template <class T, class G>
__global__ void add_partial_sums(Arguments<T, G> a, Index blocks) {
  __shared__ T shared[threads];
  const Index row = static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x;
  const Index number = blockIdx.x;
  const Index range = (blocks + blockDim.y - 1) / blockDim.y;
  const Index first = threadIdx.y * range;
  const Index last = first + range < blocks ? first + range : blocks;
  T part = 0;
  if (row < a.rows) {
#pragma unroll 4
    for (Index i = first; i < last; ++i) part += a.partial[(i * a.sum_count + number) * a.rows + row];
  }
  const T sum = sum_over_y(part, shared);
  if (threadIdx.y != 0 || row >= a.rows) return;
  const Index further = number - (a.total != nullptr) - (a.signed_total != nullptr);
  if (further >= 0 && a.input_count > 0) {
    a.by_input[row * a.input_count + further] = sum;
  } else if (further >= 0) {
    a.by_symbol[row * a.symbol_count + further] = sum;
  } else if (number == 0 && a.total != nullptr) {
    a.total[row] = sum;
  } else {
    a.signed_total[row] = sum;
  }
}

}  // namespace

template <class T, class G>
void sum_columns(MatrixView<const G> g, const ColumnSums<T>& sums) {
  Context& gpu = context(g.device);
  const Index rows = g.rows, columns = g.cols;
  if (columns == 0) {
    const TensorView<T> results[] = {sums.total, sums.signed_total, sums.by_symbol, sums.by_input};
    for (const TensorView<T>& sum : results) {
      if (!sum.empty()) fill_zero(sum.device(), sum.data(), sum.shape().bytes(sizeof(T)));
    }
    return;
  }
  const Index symbol_count = sums.by_symbol.empty() ? 0 : sums.by_symbol.shape()[1];
  const Index input_count = sums.by_input.empty() ? 0 : sums.by_input.shape()[1];
  Arguments<T, G> a{
      .g = g.data,
      .stride = g.stride,
      .h = sums.states.data(),
      .symbols = symbol_count > 0 ? sums.symbols.data() : nullptr,
      .inputs = sums.inputs.data(),
      .input_count = static_cast<int>(input_count),
      .rows = rows,
      .columns = columns,
      .columns_of_block = 0,
      .symbol_count = symbol_count,
      .total = sums.total.data(),
      .signed_total = sums.signed_total.data(),
      .by_symbol = sums.by_symbol.data(),
      .by_input = sums.by_input.data(),
      .sum_count = symbol_count + input_count + !sums.total.empty() + !sums.signed_total.empty(),
      .partial = nullptr};
  const unsigned x = threads_along_rows(rows);
  const Index ranges = std::max(1U, blocks_for(symbol_count, symbols_at_once));
  const Index max_blocks = std::clamp<Index>(max_partial_sums / (a.sum_count * rows), 1, 1024);
  const Index blocks_of_columns = std::max<Index>(1, enough_blocks / (ranges * blocks_for(rows, x)));
  a.columns_of_block = std::max(std::clamp(columns / blocks_of_columns, fewest_columns, min_columns),
                                (columns + max_blocks - 1) / max_blocks);
  const unsigned blocks = blocks_for(columns, a.columns_of_block);
  a.partial = gpu.scratch<T>(static_cast<std::size_t>(blocks * a.sum_count * rows));
  const std::size_t shared =
      sizeof(T) * threads * static_cast<std::size_t>(std::min(symbol_count, symbols_at_once));
  for (Index range = 0; range < ranges; range += max_blocks_along_z) {
    const auto count = static_cast<unsigned>(std::min(max_blocks_along_z, ranges - range));
    launch(
        gpu, input_count > 0 ? partial_sums<true, T, G> : partial_sums<false, T, G>,
        {.grid = dim3(blocks, blocks_for(rows, x), count), .block = dim3(x, threads / x), .shared = shared},
        a, range);
  }
  const unsigned final_x = std::min(x, 32U);
  launch(gpu, add_partial_sums<T, G>,
         {.grid = dim3(static_cast<unsigned>(a.sum_count), blocks_for(rows, final_x)),
          .block = dim3(final_x, threads / final_x)},
         a, blocks);
}

template void sum_columns<float, float>(MatrixView<const float>, const ColumnSums<float>&);
template void sum_columns<float, bfloat16>(MatrixView<const bfloat16>, const ColumnSums<float>&);
template void sum_columns<double, double>(MatrixView<const double>, const ColumnSums<double>&);

}  // namespace orthornn::cuda
