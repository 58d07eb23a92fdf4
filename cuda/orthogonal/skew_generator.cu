#include <cmath>
#include <limits>

#include "cuda/core/for_each.cuh"
#include "cuda/orthogonal/skew_generator.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;

/// One block for each row of A. The row's sum tells whether A is finite and small enough.
template <class T>
__global__ void skew_generator_kernel(const T* x, T* a, Index n, double largest, FaultWord* faults) {
  __shared__ double partial[threads / warp_size];
  const Index i = blockIdx.x;
  double sum = 0;
  for (Index j = threadIdx.x; j < n; j += threads) {
    const T value = x[i * n + j] - x[j * n + i];
    a[i * n + j] = value;
    sum += fabs(static_cast<double>(value));
  }
  sum = block_sum(sum, partial);
  if (threadIdx.x != 0) return;
  if (!isfinite(sum)) {
    report_fault(faults, Fault::skew_parameter_not_finite, i);
  } else if (sum >= largest) {
    report_fault(faults, Fault::skew_parameters_too_large, i);
  }
}

}  // namespace

template <class T>
void skew_generator(ConstTensorView<T> x, TensorView<T> a) {
  Context& gpu = context(a.device());
  const Index n = a.shape()[0];
  constexpr double largest = 0.01 / static_cast<double>(std::numeric_limits<T>::epsilon());
  launch(gpu, skew_generator_kernel<T>, {.grid = static_cast<unsigned>(n), .block = threads}, x.data(),
         a.data(), n, largest, gpu.faults());
}

template <class T>
void transpose_in_place(TensorView<T> a) {
  const Index n = a.shape()[0];
  T* data = a.data();
  for_each(context(a.device()), n * n, [=] __device__(Index e) {
    const Index i = e / n, j = e % n;
    if (j >= i) return;
    const T lower = data[e];
    data[e] = data[j * n + i];
    data[j * n + i] = lower;
  });
}

template <class T>
void backward_of_skew_generator(ConstTensorView<T> d_a, TensorView<T> d_x) {
  const Index n = d_a.shape()[0];
  const T* from = d_a.data();
  T* to = d_x.data();
  for_each(context(d_x.device()), n * n,
           [=] __device__(Index e) { to[e] = from[e] - from[(e % n) * n + e / n]; });
}

#define ORTHORNN_INSTANTIATE(T)                                       \
  template void skew_generator<T>(ConstTensorView<T>, TensorView<T>); \
  template void transpose_in_place<T>(TensorView<T>);                 \
  template void backward_of_skew_generator<T>(ConstTensorView<T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
