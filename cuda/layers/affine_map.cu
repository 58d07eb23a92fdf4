#include <cstdint>
#include <limits>

#include "cuda/core/for_each.cuh"
#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/affine_map.hpp"
#include "cuda/linalg/gemm.hpp"

namespace orthornn::cuda {
namespace {

// Up to so many inputs, writing a once counts for more than tensor cores do.
constexpr int max_fused_inputs = 16;

// Columns that a thread works on side by side: it reads for all of them, then it writes, so that it waits for
// memory once and not once a column.
constexpr int columns_at_once = 4;

/// Neighbouring numbers, which are written at once.
template <class T, int Count>
struct alignas(Count * sizeof(T)) Pack {
  T x[Count];
};

/// a [.., N] <- W x + b for at most max_fused_inputs inputs; threads as in for_each_entry, each for `Rows`
/// rows, of which N is a multiple. A thread reads its rows of W once: those of neighbours are far apart, so
/// each read of one costs as many lines as threads.
template <int Rows, class T>
__global__ void multiply_few_kernel(const T* __restrict__ weights, const T* __restrict__ bias,
                                    const T* __restrict__ vectors, T* __restrict__ a, Index rows, int inputs,
                                    Index columns) {
  const Index row_stride = static_cast<Index>(gridDim.y) * blockDim.x;
  const Index column_stride = static_cast<Index>(gridDim.x) * blockDim.y;
  for (Index pack = static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x; pack < rows / Rows;
       pack += row_stride) {
    const Index row = pack * Rows;
    T w[max_fused_inputs][Rows] = {};
    Pack<T, Rows> b = {};
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (bias != nullptr) b.x[r] = bias[row + r];
#pragma unroll
      for (int i = 0; i < max_fused_inputs; ++i) {
        if (i < inputs) w[i][r] = weights[(row + r) * inputs + i];
      }
    }
    for (Index column = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y; column < columns;
         column += columns_at_once * column_stride) {
      Pack<T, Rows> sums[columns_at_once];
#pragma unroll
      for (int j = 0; j < columns_at_once; ++j) sums[j] = b;
#pragma unroll
      for (int i = 0; i < max_fused_inputs; ++i) {
        if (i >= inputs) break;
#pragma unroll
        for (int j = 0; j < columns_at_once; ++j) {
          const Index own = column + j * column_stride;
          const T x = own < columns ? vectors[own * inputs + i] : T{0};
#pragma unroll
          for (int r = 0; r < Rows; ++r) sums[j].x[r] += w[i][r] * x;
        }
      }
#pragma unroll
      for (int j = 0; j < columns_at_once; ++j) {
        const Index own = column + j * column_stride;
        if (own < columns) *reinterpret_cast<Pack<T, Rows>*>(a + own * rows + row) = sums[j];
      }
    }
  }
}

template <int Rows, class T>
void multiply_few(TensorView<const T> weights, TensorView<const T> bias, TensorView<const T> vectors,
                  TensorView<T> a) {
  const Context& gpu = context(a.device());
  const Index n = weights.shape()[0], columns = a.size() / n;
  launch(gpu, multiply_few_kernel<Rows, T>, shape_over_entries(gpu, n / Rows, columns), weights.data(),
         bias.empty() ? nullptr : bias.data(), vectors.data(), a.data(), n,
         static_cast<int>(weights.shape()[1]), columns);
}

/// out [.., N] <- columns [K, N] by symbols; threads as in for_each_entry.
template <class T>
__global__ void pick_columns_kernel(const T* __restrict__ columns, const std::int32_t* __restrict__ symbols,
                                    T* __restrict__ out, Index rows, Index symbol_count, Index count,
                                    FaultWord* faults) {
  const Index row = static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const Index first = static_cast<Index>(blockIdx.x) * blockDim.y * columns_at_once + threadIdx.y;
  Index symbol[columns_at_once];
  T picked[columns_at_once];
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) {
    const Index column = first + i * blockDim.y;
    symbol[i] = column < count ? symbols[column] : 0;
  }
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) {
    const bool known = symbol[i] >= 0 && symbol[i] < symbol_count;
    picked[i] = known ? columns[symbol[i] * rows + row] : std::numeric_limits<T>::quiet_NaN();
    if (!known && row == 0) report_fault(faults, Fault::symbol_out_of_range, first + i * blockDim.y);
  }
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) {
    const Index column = first + i * blockDim.y;
    if (column < count) out[column * rows + row] = picked[i];
  }
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
  constexpr int rows = 16 / sizeof(T);  // of the longest store
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(a.data()) % 16 == 0;
  n % rows == 0 && is_aligned ? multiply_few<rows>(weights, bias, vectors, a)
                              : multiply_few<1>(weights, bias, vectors, a);
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
  constexpr unsigned threads = 256;
  const unsigned x = threads_along_rows(n);
  const unsigned y = threads / x;
  launch(gpu, pick_columns_kernel<T>,
         {.grid = dim3(blocks_for(symbols.size(), Index{y} * columns_at_once), blocks_for(n, x)),
          .block = dim3(x, y)},
         transposed, symbols.data(), a.data(), n, k, symbols.size(), gpu.faults());
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
