#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/gate.cuh"
#include "cuda/layers/gated_mlp.hpp"

namespace orthornn::cuda {

template <class T>
void gate(TensorView<const T> rows, TensorView<T> inner) {
  const Index size = inner.shape()[-1];
  const T* x = rows.data();
  T* y = inner.data();
  for_each_entry(context(inner.device()), size, inner.size() / size, [=] __device__(Index i, Index row) {
    const T* a = x + 2 * row * size + i;
    y[row * size + i] = a[0] * sigmoid(a[0]) * a[size];
  });
}

template <class T>
void gate_backward(TensorView<const T> rows, TensorView<const T> d_inner, TensorView<T> d_rows) {
  const Index size = d_inner.shape()[-1];
  const T* x = rows.data();
  const T* d = d_inner.data();
  T* y = d_rows.data();
  for_each_entry(context(d_rows.device()), size, d_inner.size() / size, [=] __device__(Index i, Index row) {
    const Index at = 2 * row * size + i;
    const T a = x[at], sigma = sigmoid(a), gradient = d[row * size + i];
    y[at] = gradient * x[at + size] * sigma * (T{1} + a * (T{1} - sigma));
    y[at + size] = gradient * a * sigma;
  });
}

#define ORTHORNN_INSTANTIATE(T)                              \
  template void gate<T>(TensorView<const T>, TensorView<T>); \
  template void gate_backward<T>(TensorView<const T>, TensorView<const T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
