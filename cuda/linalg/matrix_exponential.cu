#include <algorithm>

#include "cuda/core/device.hpp"
#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/linalg/matrix_exponential.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;

template <class T>
__global__ void column_sums_kernel(const T* a, Index stride, Index rows, double* sums) {
  __shared__ double partial[threads / warp_size];
  const T* column = a + blockIdx.x * stride;
  double sum = 0;
  for (Index i = threadIdx.x; i < rows; i += threads) sum += fabs(static_cast<double>(column[i]));
  sum = block_sum(sum, partial);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

template <class T>
double one_norm(MatrixView<const T> a) {
  Context& gpu = context(a.device);
  const auto count = static_cast<std::size_t>(a.cols);
  double* sums = gpu.scratch<double>(count);
  launch(gpu, column_sums_kernel<T>, {.grid = static_cast<unsigned>(a.cols), .block = threads}, a.data,
         a.stride, a.rows, sums);
  const auto on_host = static_cast<double*>(gpu.host_scratch(count * sizeof(double)));
  cuda::copy_bytes(Device::cpu(), on_host, a.device, sums, count * sizeof(double));
  return *std::max_element(on_host, on_host + count);
}

template double one_norm<float>(MatrixView<const float>);
template double one_norm<double>(MatrixView<const double>);

}  // namespace orthornn::cuda
