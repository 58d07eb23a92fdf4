#include <limits>

#include "cuda/core/for_each.cuh"
#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/affine_map.hpp"
#include "cuda/linalg/gemm.hpp"

namespace orthornn::cuda {
namespace {

// Up to so many inputs, writing a once counts for more than tensor cores do.
constexpr int max_fused_inputs = 8;

// Columns that a thread works on side by side: it reads for all of them, then it writes, so that it waits for
// memory once and not once a column.
constexpr int columns_at_once = 4;

/// a [.., N] <- W x + b for at most max_fused_inputs inputs; threads as in for_each_entry. A thread reads its
/// row of W once: the rows of neighbours are far apart, so each read of one costs as many lines as threads.
template <class T>
__global__ void multiply_few_kernel(const T* __restrict__ weights, const T* __restrict__ bias,
                                    const T* __restrict__ vectors, T* __restrict__ a, Index rows, int inputs,
                                    Index columns) {
  const Index row_stride = static_cast<Index>(gridDim.y) * blockDim.x;
  const Index column_stride = static_cast<Index>(gridDim.x) * blockDim.y;
  for (Index row = static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x; row < rows; row += row_stride) {
    T w[max_fused_inputs] = {};
#pragma unroll
    for (int i = 0; i < max_fused_inputs; ++i) {
      if (i < inputs) w[i] = weights[row * inputs + i];
    }
    const T b = bias == nullptr ? T{0} : bias[row];
    for (Index column = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y; column < columns;
         column += columns_at_once * column_stride) {
      T sums[columns_at_once];
#pragma unroll
      for (int j = 0; j < columns_at_once; ++j) sums[j] = b;
#pragma unroll
      for (int i = 0; i < max_fused_inputs; ++i) {
        if (i >= inputs) break;
        T x[columns_at_once];
#pragma unroll
        for (int j = 0; j < columns_at_once; ++j) {
          const Index own = column + j * column_stride;
          x[j] = own < columns ? vectors[own * inputs + i] : T{0};
        }
#pragma unroll
        for (int j = 0; j < columns_at_once; ++j) sums[j] += w[i] * x[j];
      }
#pragma unroll
      for (int j = 0; j < columns_at_once; ++j) {
        const Index own = column + j * column_stride;
        if (own < columns) a[own * rows + row] = sums[j];
      }
    }
  }
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
  const Context& gpu = context(a.device());
  const Index columns = a.size() / n;
  launch(gpu, multiply_few_kernel<T>, shape_over_entries(gpu, n, columns), weights.data(),
         bias.empty() ? nullptr : bias.data(), vectors.data(), a.data(), n, static_cast<int>(k), columns);
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
