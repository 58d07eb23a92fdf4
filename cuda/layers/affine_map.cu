#include <cstdint>
#include <limits>
#include <type_traits>

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

/// Weights W [N, K] as they lie, or as the transpose of what lies there.
template <class T>
struct WeightsView {
  const T* __restrict__ data;
  Index row_stride, input_stride;
};

/// a [.., N] <- W x + b for at most max_fused_inputs inputs; threads as in for_each_entry, each for `Rows`
/// rows, of which N is a multiple. A thread reads its rows of W once: those of neighbours are far apart, so
/// each read of one costs as many lines as threads.
template <int Rows, class T>
__global__ void multiply_few_kernel(WeightsView<T> weights, const T* __restrict__ bias,
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
        if (i < inputs) w[i][r] = weights.data[(row + r) * weights.row_stride + i * weights.input_stride];
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

/// Calls body(constant) with the most numbers of T, up to 16 bytes, that can be written at once to rows of N
/// numbers.
template <class T>
void with_pack(TensorView<const T> rows, Index n, const auto& body) {
  const auto fits = [&](std::size_t count) {
    return n % static_cast<Index>(count) == 0 &&
           reinterpret_cast<std::uintptr_t>(rows.data()) % (count * sizeof(T)) == 0;
  };
  constexpr std::size_t most = 16 / sizeof(T);
  if (fits(most)) return body(std::integral_constant<int, most>());
  if (fits(most / 2)) return body(std::integral_constant<int, most / 2>());
  body(std::integral_constant<int, 1>());
}

template <class T>
void multiply_few(const WeightsView<T>& weights, Index inputs, TensorView<const T> bias,
                  TensorView<const T> vectors, TensorView<T> a, Index n) {
  if (a.empty()) return;
  const Context& gpu = context(a.device());
  const Index columns = a.size() / n;
  with_pack<T>(a, n, [&](auto rows) {
    launch(gpu, multiply_few_kernel<rows, T>, shape_over_entries(gpu, n / rows, columns), weights,
           bias.empty() ? nullptr : bias.data(), vectors.data(), a.data(), n, static_cast<int>(inputs),
           columns);
  });
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
    const bool known = symbol[i] >= 0 && symbol[i] < symbol_count;
    if (known) {
      picked[i] = *reinterpret_cast<const Pack<T, Rows>*>(columns + symbol[i] * rows + row);
    } else {
#pragma unroll
      for (T& x : picked[i].x) x = std::numeric_limits<T>::quiet_NaN();
    }
    if (!known && row == 0) report_fault(faults, Fault::symbol_out_of_range, first + i * blockDim.y);
  }
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) {
    const Index column = first + i * blockDim.y;
    if (column < count) *reinterpret_cast<Pack<T, Rows>*>(out + column * rows + row) = picked[i];
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
  multiply_few<T>({weights.data(), k, 1}, k, bias, vectors, a, n);
}

template <class T>
void multiply_by_transpose(TensorView<const T> weights, TensorView<const T> vectors, TensorView<T> a) {
  const Index n = weights.shape()[1];
  multiply_few<T>({weights.data(), 1, n}, weights.shape()[0], {}, vectors, a, n);
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
  // `columns` begins where a device gives memory, at a multiple of every pack.
  with_pack<T>(a, n, [&](auto rows) {
    const unsigned x = threads_along_rows(n / rows), y = threads / x;
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
  template void multiply_by_transpose<T>(TensorView<const T>, TensorView<const T>, TensorView<T>);        \
  template void pick_columns<T>(TensorView<const T>, TensorView<const T>, TensorView<const std::int32_t>, \
                                TensorView<T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
