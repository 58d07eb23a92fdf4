#include <cmath>
#include <limits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
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

template void skew_generator<float>(ConstTensorView<float>, TensorView<float>);
template void skew_generator<double>(ConstTensorView<double>, TensorView<double>);

}  // namespace orthornn::cuda
