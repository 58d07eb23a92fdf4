#include <limits>

#include "cuda/cells/for_each_entry.cuh"
#include "cuda/cells/input_product.hpp"
#include "cuda/core/for_each.cuh"
#include "cuda/linalg/gemm.hpp"

namespace orthornn::cuda {
namespace {

// Up to so many inputs, writing a once counts for more than tensor cores do.
constexpr Index max_fused_inputs = 8;

}  // namespace

template <class T>
void fill_with_bias(TensorView<const T> bias, TensorView<T> a) {
  const Index rows = bias.size();
  const T* b = bias.data();
  T* out = a.data();
  for_each_entry(context(a.device()), rows, a.size() / rows,
                 [=] __device__(Index row, Index column) { out[column * rows + row] = b[row]; });
}

template <class T>
void multiply_vectors(TensorView<const T> weights, TensorView<const T> bias, TensorView<const T> vectors,
                      TensorView<T> a, Precision precision) {
  const Index n = weights.shape()[0];
  const Index k = weights.shape()[1];
  if (k > max_fused_inputs) {
    fill_with_bias<T>(bias, a);
    return cuda::gemm<T>(1, transposed(columns_of(weights)), columns_of(vectors), 1, columns_of(a),
                         precision);
  }
  const T* w = weights.data();
  const T* b = bias.data();
  const T* x = vectors.data();
  T* out = a.data();
  for_each_entry(context(a.device()), n, a.size() / n, [=] __device__(Index row, Index column) {
    T sum = b[row];
    for (Index i = 0; i < k; ++i) sum += w[row * k + i] * x[column * k + i];
    out[column * n + row] = sum;
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
  const std::int32_t* x = symbols.data();
  T* out = a.data();
  FaultWord* faults = gpu.faults();
  for_each_entry(gpu, n, symbols.size(), [=] __device__(Index row, Index column) {
    const Index symbol = x[column];
    const bool known = symbol >= 0 && symbol < k;
    if (!known && row == 0) report_fault(faults, Fault::symbol_out_of_range, column);
    out[column * n + row] = known ? transposed[symbol * n + row] : std::numeric_limits<T>::quiet_NaN();
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
  template void fill_with_bias<T>(TensorView<const T>, TensorView<T>);                                    \
  template void pick_columns<T>(TensorView<const T>, TensorView<const T>, TensorView<const std::int32_t>, \
                                TensorView<T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
