#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "cuda/core/device.hpp"
#include "cuda/core/for_each_entry.cuh"
#include "cuda/core/pack.cuh"
#include "cuda/core/read_ahead.cuh"
#include "cuda/linalg/column_sums.hpp"
#include "cuda/linalg/sum_partials.cuh"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
// Columns that a thread reads at once, and how many such reads are on their way.
constexpr int columns_at_once = 4, reads_ahead = 2;
// Symbols that a thread keeps sums of, in registers: a sum in shared memory waits for the one before it.
constexpr int symbols_at_once = 16;
// Columns of a block at least: fewer cost more partial sums than they save time, where the blocks fill the
// GPU.
constexpr Index min_columns = 256;
// Blocks that fill a large GPU. Not this one: the order of the sums depends on the sizes alone.
constexpr Index enough_blocks = 512;
// Columns of a block at least where they do not fill it: 768 columns of 1024 rows took two blocks of columns
// 20 us, for each thread had 128 columns one after the other.
constexpr Index fewest_columns = 32;
// CUDA's limit.
constexpr Index max_blocks_along_z = 65'535;

/// Blocks that a multiprocessor shall run at once. With four, sums by input take one turn on a large GPU.
/// Sums by symbol have no registers for four: three took 66 us, two 76.
template <bool by_symbol, class T>
constexpr int least_blocks = (by_symbol ? 3 : 4) - (sizeof(T) > sizeof(float) ? 1 : 0);

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

/// Adds numbers over threadIdx.y, in order, and lets threadIdx.y = 0 write them to out, of which `count`
/// exist. `shared` holds a pack a thread.
template <int Width, class T>
__device__ void write_sums_over_y(const Pack<T, Width>& x, Pack<T, Width>* shared, Index count, T* out) {
  __syncthreads();
  shared[threadIdx.y * blockDim.x + threadIdx.x] = x;
  __syncthreads();
  if (threadIdx.y != 0) return;
#pragma unroll
  for (int i = 0; i < Width; ++i) {
    T sum = 0;
    for (unsigned y = 0; y < blockDim.y; ++y) sum += shared[y * blockDim.x + threadIdx.x].of[i];
    if (i < count) out[i] = sum;
  }
}

template <int Width, class T>
using ColumnReads = ReadAhead<Pack<T, Width>, columns_at_once, reads_ahead>;

/// The columns that a thread adds: `Width` rows of every blockDim.y-th column of the block.
template <bool by_symbol, int Width, class T, class G>
class ThreadColumns {
 public:
  /// `range` is that of the symbols; range 0 takes the totals.
  __device__ __forceinline__ ThreadColumns(const Arguments<T, G>& a, Index row, Index range)
      : a_(a),
        range_(range),
        stride_(blockDim.y),
        gradients_(dynamic_shared_memory(), thread(), block_threads()),
        states_(dynamic_shared_memory() + ColumnReads<Width, G>::bytes(block_threads()), thread(),
                block_threads()) {
    const Index begin = blockIdx.x * a.columns_of_block, first = begin + threadIdx.y;
    const Index end = begin + a.columns_of_block < a.columns ? begin + a.columns_of_block : a.columns;
    left_ = row < a.rows && first < end ? static_cast<int>((end - first + stride_ - 1) / stride_) : 0;
    to_fetch_ = left_;
    g_ = a.g + first * a.stride + row;
    if (has_signs()) h_ = a.h + first * a.rows + row;
    if (by_symbol) symbols_ = symbols_to_fetch_ = a.symbols + first;
    if (!by_symbol) inputs_ = a.inputs + first * a.input_count;
    for (int ahead = 0; ahead < reads_ahead; ++ahead) {
      fetch();
      ptx::cp_async_commit();
    }
  }

  __device__ __forceinline__ bool has_signs() const { return a_.signed_total != nullptr && range_ == 0; }
  /// Columns that are left, of which the next `columns_at_once` are taken together.
  __device__ __forceinline__ int left() const { return left_; }

  /// Before the columns are taken.
  __device__ __forceinline__ void arrive() {
    fetch();
    gradients_.next_round();
  }
  __device__ __forceinline__ Pack<T, Width> gradient(int c) const {
    const Pack<G, Width> read = gradients_[c];
    Pack<T, Width> result;
#pragma unroll
    for (int r = 0; r < Width; ++r) result.of[r] = static_cast<T>(read.of[r]);
    return result;
  }
  __device__ __forceinline__ Pack<T, Width> state(int c) const { return states_[c]; }
  /// Of the next columns: their numbers in the range. That of a column that does not exist is none.
  __device__ __forceinline__ void read_symbols(int (&symbols)[columns_at_once]) const {
#pragma unroll
    for (int c = 0; c < columns_at_once; ++c)
      symbols[c] = c < left_ ? symbols_[c * stride_] - static_cast<int>(range_ * symbols_at_once) : -1;
  }
  /// Of the next columns: input i, or 0.
  __device__ __forceinline__ void read_inputs(int i, T (&inputs)[columns_at_once]) const {
#pragma unroll
    for (int c = 0; c < columns_at_once; ++c)
      inputs[c] = c < left_ ? inputs_[c * stride_ * a_.input_count + i] : T{0};
  }
  __device__ __forceinline__ void advance() {
    left_ -= columns_at_once;
    if (by_symbol) symbols_ += columns_at_once * stride_;
    if (!by_symbol) inputs_ += columns_at_once * stride_ * a_.input_count;
    gradients_.advance();
    states_.advance();
  }

 private:
  static __device__ __forceinline__ unsigned thread() { return threadIdx.y * blockDim.x + threadIdx.x; }
  static __device__ __forceinline__ unsigned block_threads() { return blockDim.x * blockDim.y; }

  __device__ __forceinline__ void fetch() {
    if (!by_symbol || range_ == 0) {
      gradients_.fetch(g_, stride_ * a_.stride, to_fetch_, {});
    } else {  // those of the range alone
      gradients_.fetch_some(g_, stride_ * a_.stride, {}, [&](int c) {
        return c < to_fetch_ && symbols_to_fetch_[c * stride_] / symbols_at_once == range_;
      });
    }
    g_ += columns_at_once * stride_ * a_.stride;
    if (by_symbol) symbols_to_fetch_ += columns_at_once * stride_;
    if (has_signs()) {
      states_.fetch(h_, stride_ * a_.rows, to_fetch_, {});
      h_ += columns_at_once * stride_ * a_.rows;
    }
    to_fetch_ -= columns_at_once;
  }

  const Arguments<T, G>& a_;
  Index range_, stride_;
  int left_, to_fetch_;
  const G* g_;
  const T *h_ = nullptr, *inputs_ = nullptr;
  const std::int32_t *symbols_ = nullptr, *symbols_to_fetch_ = nullptr;
  ColumnReads<Width, G> gradients_;
  ColumnReads<Width, T> states_;
};

/// Block (i, j, k): columns of range i, rows of range j, symbols of range first_range + k; range 0 takes the
/// totals. Sums are by symbol or by input. N is a multiple of Width.
template <bool by_symbol, int Width, class T, class G>
__global__ void __launch_bounds__(threads, least_blocks<by_symbol, T>)
    partial_sums(Arguments<T, G> a, Index first_range) {
  constexpr int most_sums = by_symbol ? symbols_at_once : ColumnSums<T>::most_inputs;
  __shared__ Pack<T, Width> shared[threads];
  const Index row = (static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x) * Width;
  const Index range = first_range + blockIdx.z, first_symbol = range * symbols_at_once;
  const int sum_count = static_cast<int>(by_symbol ? a.symbol_count - first_symbol : a.input_count);
  ThreadColumns<by_symbol, Width, T, G> columns(a, row, range);
  Pack<T, Width> total{}, signed_total{}, sums[most_sums] = {};
  for (; columns.left() > 0; columns.advance()) {
    // These loads start before the wait. Further inputs are loaded each after the one before it is used.
    int symbol[columns_at_once];
    T input[columns_at_once];
    if constexpr (by_symbol) {
      columns.read_symbols(symbol);
    } else if (sum_count > 0) {
      columns.read_inputs(0, input);
    }
    columns.arrive();
    Pack<T, Width> gradient[columns_at_once];
#pragma unroll
    for (int c = 0; c < columns_at_once; ++c) {
      gradient[c] = columns.gradient(c);
      const Pack<T, Width> state = columns.has_signs() ? columns.state(c) : Pack<T, Width>{};
#pragma unroll
      for (int r = 0; r < Width; ++r) {
        total.of[r] += gradient[c].of[r];
        if (columns.has_signs())
          signed_total.of[r] += copysign(gradient[c].of[r], gradient[c].of[r] * state.of[r]);
      }
    }
#pragma unroll
    for (int i = 0; i < most_sums; ++i) {
      if (i >= sum_count) break;
#pragma unroll
      for (int c = 0; c < columns_at_once; ++c) {
        if (by_symbol && symbol[c] != i) continue;
#pragma unroll
        for (int r = 0; r < Width; ++r)
          sums[i].of[r] += by_symbol ? gradient[c].of[r] : gradient[c].of[r] * input[c];
      }
      if constexpr (!by_symbol) {
        if (i + 1 < sum_count) columns.read_inputs(i + 1, input);
      }
    }
  }

  // The sums that there are, and 0 rows of the totals for all ranges but the first.
  const Index rows = a.rows - row, rows_of_totals = range == 0 ? rows : 0;
  T* out = a.partial + blockIdx.x * a.sum_count * a.rows + row;
  if (a.total != nullptr) {
    write_sums_over_y<Width>(total, shared, rows_of_totals, out);
    out += a.rows;
  }
  if (a.signed_total != nullptr) {
    write_sums_over_y<Width>(signed_total, shared, rows_of_totals, out);
    out += a.rows;
  }
  if (by_symbol) out += first_symbol * a.rows;
#pragma unroll
  for (int i = 0; i < most_sums; ++i) {
    if (i >= sum_count) break;
    write_sums_over_y<Width>(sums[i], shared, rows, out + i * a.rows);
  }
}

/// Adds the sums of the blocks, and puts them where they belong.
template <class T, class G>
void add_blocks(const Context& gpu, const Arguments<T, G>& a, Index blocks) {
  sum_partials(gpu, a.partial, blocks, a.sum_count * a.rows, [=] __device__(Index i, T sum) {
    const Index number = i / a.rows, row = i % a.rows;
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
  });
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
  // Pairs of doubles would take 100 KiB of shared memory where there are signed sums. GPUs of compute
  // capability 8.6 have 99 KiB a block.
  const bool pairs = sizeof(T) <= sizeof(float) && rows % 2 == 0 && g.stride % 2 == 0 &&
                     is_aligned_for<2>(g.data) && is_aligned_for<2>(sums.states.data());
  const Index packs = pairs ? rows / 2 : rows;
  const unsigned x = threads_over_rows(packs), y = threads / x;
  const Index ranges = std::max(1U, blocks_for(symbol_count, symbols_at_once));
  const Index max_blocks = std::clamp<Index>(max_partial_sums / (a.sum_count * rows), 1, 1024);
  const Index blocks_of_columns = std::max<Index>(1, enough_blocks / (ranges * blocks_for(packs, x)));
  a.columns_of_block = std::max(std::clamp(columns / blocks_of_columns, fewest_columns, min_columns),
                                (columns + max_blocks - 1) / max_blocks);
  const unsigned blocks = blocks_for(columns, a.columns_of_block);
  a.partial = gpu.scratch<T>(static_cast<std::size_t>(blocks * a.sum_count * rows));
  const auto start = [&](auto width) {
    const auto kernel = symbol_count > 0 ? partial_sums<true, width, T, G> : partial_sums<false, width, T, G>;
    const std::size_t of_states = a.signed_total != nullptr ? ColumnReads<width, T>::bytes(x * y) : 0;
    for (Index range = 0; range < ranges; range += max_blocks_along_z) {
      const auto count = static_cast<unsigned>(std::min(max_blocks_along_z, ranges - range));
      launch(gpu, kernel,
             {.grid = dim3(blocks, blocks_for(packs, x), count),
              .block = dim3(x, y),
              .shared = ColumnReads<width, G>::bytes(x * y) + of_states},
             a, range);
    }
  };
  if constexpr (sizeof(T) <= sizeof(float)) {
    if (pairs) start(std::integral_constant<int, 2>());
  }
  if (!pairs) start(std::integral_constant<int, 1>());
  add_blocks(gpu, a, blocks);
}

template void sum_columns<float, float>(MatrixView<const float>, const ColumnSums<float>&);
template void sum_columns<float, bfloat16>(MatrixView<const bfloat16>, const ColumnSums<float>&);
template void sum_columns<double, double>(MatrixView<const double>, const ColumnSums<double>&);

}  // namespace orthornn::cuda
