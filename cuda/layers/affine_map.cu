#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "cuda/core/for_each.cuh"
#include "cuda/core/for_each_entry.cuh"
#include "cuda/core/pack.cuh"
#include "cuda/layers/affine_map.hpp"
#include "cuda/linalg/gemm.hpp"

namespace orthornn::cuda {
namespace {

// Up to so many inputs, writing a once counts for more than tensor cores do.
constexpr int max_fused_inputs = 16;
// With so few, a multiprocessor has registers for more threads.
constexpr int few_inputs = 2;

constexpr unsigned threads_of_block = 256, most_blocks_along_y = 65'535;

// Columns that a thread works on side by side: it reads for all of them, then it writes, so that it waits for
// memory once and not once a column.
constexpr int columns_at_once = 4;

/// a [.., N] <- W x + b for at most `Inputs` inputs; threads as in for_each_entry, each for `Rows` rows, of
/// which N is a multiple. A thread reads its rows of W once: those of neighbours are far apart, so each read
/// of one costs as many lines as threads.
template <int Inputs, int Rows, class T>
__global__ void multiply_few_kernel(const T* __restrict__ weights, const T* __restrict__ bias,
                                    const T* __restrict__ vectors, T* __restrict__ a, Index rows, int inputs,
                                    Index columns) {
  const Index row_stride = static_cast<Index>(gridDim.y) * blockDim.x;
  const Index column_stride = static_cast<Index>(gridDim.x) * blockDim.y;
  for (Index pack = static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x; pack < rows / Rows;
       pack += row_stride) {
    const Index row = pack * Rows;
    T w[Inputs][Rows] = {};
    Pack<T, Rows> b = {};
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (bias != nullptr) b.of[r] = bias[row + r];
#pragma unroll
      for (int i = 0; i < Inputs; ++i) {
        if (i < inputs) w[i][r] = weights[(row + r) * inputs + i];
      }
    }
    for (Index column = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y; column < columns;
         column += columns_at_once * column_stride) {
      Pack<T, Rows> sums[columns_at_once];
#pragma unroll
      for (int j = 0; j < columns_at_once; ++j) sums[j] = b;
#pragma unroll
      for (int i = 0; i < Inputs; ++i) {
        if (i >= inputs) break;
#pragma unroll
        for (int j = 0; j < columns_at_once; ++j) {
          const Index own = column + j * column_stride;
          const T x = own < columns ? vectors[own * inputs + i] : T{0};
#pragma unroll
          for (int r = 0; r < Rows; ++r) sums[j].of[r] += w[i][r] * x;
        }
      }
#pragma unroll
      for (int j = 0; j < columns_at_once; ++j) {
        const Index own = column + j * column_stride;
        if (own < columns) store_pack(sums[j], a + own * rows + row);
      }
    }
  }
}

template <int Inputs, int Rows, class T>
void multiply_few(TensorView<const T> weights, TensorView<const T> bias, TensorView<const T> vectors,
                  TensorView<T> a) {
  const Context& gpu = context(a.device());
  const Index n = weights.shape()[0], columns = a.size() / n;
  const unsigned x = threads_over_rows(n / Rows), y = std::max(1U, threads_of_block / x);
  // So many blocks run at the same time; each goes on from there.
  constexpr unsigned blocks_of_multiprocessor = Inputs <= few_inputs ? 6 : 3;
  const unsigned most = static_cast<unsigned>(gpu.multiprocessors()) * blocks_of_multiprocessor;
  const unsigned blocks = std::min(blocks_for(columns, Index{y} * columns_at_once), most);
  launch(gpu, multiply_few_kernel<Inputs, Rows, T>,
         {.grid = dim3(blocks, std::min(blocks_for(n / Rows, x), most_blocks_along_y)), .block = dim3(x, y)},
         weights.data(), bias.empty() ? nullptr : bias.data(), vectors.data(), a.data(), n,
         static_cast<int>(weights.shape()[1]), columns);
}

/// out [.., N] <- columns [K, N] by symbols; threads as in for_each_entry, each for `Rows` rows, of which N
/// is a multiple.
template <int Rows, class T>
__global__ void pick_columns_kernel(const T* __restrict__ columns, const std::int32_t* __restrict__ symbols,
                                    T* __restrict__ out, Index rows, Index symbol_count, Index count,
                                    FaultWord* faults) {
  const Index row = (static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x) * Rows;
  if (row >= rows) return;
  const Index first = static_cast<Index>(blockIdx.x) * blockDim.y * columns_at_once + threadIdx.y;
  Index symbol[columns_at_once];
  Pack<T, Rows> picked[columns_at_once];
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) {
    const Index column = first + i * blockDim.y;
    symbol[i] = column < count ? symbols[column] : 0;
  }
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) {
    if (symbol[i] >= 0 && symbol[i] < symbol_count) {
      picked[i] = load_pack<Rows>(columns + symbol[i] * rows + row);
    } else {
#pragma unroll
      for (int r = 0; r < Rows; ++r) picked[i].of[r] = std::numeric_limits<T>::quiet_NaN();
      if (row == 0) report_fault(faults, Fault::symbol_out_of_range, first + i * blockDim.y);
    }
  }
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) {
    const Index column = first + i * blockDim.y;
    if (column < count) store_pack(picked[i], out + column * rows + row);
  }
}

/// Calls f(constant) with the number of rows of a thread: the longest pack that N and the memory that is read
/// and written in packs allow.
template <class T, class F>
void with_rows_of_thread(Index n, std::initializer_list<const T*> memory, F f) {
  const auto fits = [&](auto rows) {
    return n % rows == 0 && std::ranges::all_of(memory, is_aligned_for<rows, T>);
  };
  constexpr std::integral_constant<int, numbers_of_word<T>> most;
  constexpr std::integral_constant<int, 2> pair;
  if (fits(most)) return f(most);
  if (fits(pair)) return f(pair);
  f(std::integral_constant<int, 1>());
}

/// a [.., N] <- bias [N] everywhere.
template <class T>
void fill_with_bias(TensorView<const T> bias, TensorView<T> a) {
  const Index rows = bias.size();
  const T* b = bias.data();
  T* out = a.data();
  for_each_entry(context(a.device()), rows, a.size() / rows,
                 [=] __device__(Index row, Index column) { out[column * rows + row] = b[row]; });
}

}  // namespace

template <class T>
void multiply_vectors(TensorView<const T> weights, TensorView<const T> bias, TensorView<const T> vectors,
                      TensorView<T> a, Precision precision) {
  const Index n = weights.shape()[0];
  const Index k = weights.shape()[1];
  if (k > max_fused_inputs) {
    if (!bias.empty()) fill_with_bias<T>(bias, a);
    return cuda::gemm<T>(1, transposed(columns_of(weights)), columns_of(vectors), bias.empty() ? 0 : 1,
                         columns_of(a), precision);
  }
  if (a.empty()) return;
  with_rows_of_thread<T>(n, {a.data()}, [&](auto rows) {
    k <= few_inputs ? multiply_few<few_inputs, rows>(weights, bias, vectors, a)
                    : multiply_few<max_fused_inputs, rows>(weights, bias, vectors, a);
  });
}

template <class T>
void pick_columns(TensorView<const T> weights, TensorView<const T> bias,
                  TensorView<const std::int32_t> symbols, TensorView<T> columns, TensorView<T> a) {
  const Context& gpu = context(a.device());
  const Index n = weights.shape()[0];
  const Index k = weights.shape()[1];
  const T* w = weights.data();
  T* transposed = columns.data();
  // First with the entries of a column side by side, and the bias in: they are read again and again.
  const T* b = bias.data();
  for_each_entry(gpu, n, k, [=] __device__(Index row, Index symbol) {
    transposed[symbol * n + row] = w[row * k + symbol] + b[row];
  });
  if (symbols.empty()) return;
  with_rows_of_thread<T>(n, {transposed, a.data()}, [&](auto rows) {
    const unsigned x = threads_over_rows(n / rows), y = std::max(1U, threads_of_block / x);
    launch(gpu, pick_columns_kernel<rows, T>,
           {.grid = dim3(blocks_for(symbols.size(), Index{y} * columns_at_once), blocks_for(n / rows, x)),
            .block = dim3(x, y)},
           transposed, symbols.data(), a.data(), n, k, symbols.size(), gpu.faults());
  });
}

void check_lengths(TensorView<const std::int32_t> lengths, Index most) {
  const Context& gpu = context(lengths.device());
  const std::int32_t* live = lengths.data();
  FaultWord* faults = gpu.faults();
  for_each(gpu, lengths.size(), [=] __device__(Index i) {
    if (live[i] < 0 || live[i] > most) report_fault(faults, Fault::length_out_of_range, i);
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                           \
  template void multiply_vectors<T>(TensorView<const T>, TensorView<const T>, TensorView<const T>,        \
                                    TensorView<T>, Precision);                                            \
  template void pick_columns<T>(TensorView<const T>, TensorView<const T>, TensorView<const std::int32_t>, \
                                TensorView<T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
