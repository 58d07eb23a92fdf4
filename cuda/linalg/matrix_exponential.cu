#include <algorithm>
#include <cassert>

#include "cuda/core/device.hpp"
#include "cuda/core/for_each.cuh"
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

template <class T>
void assign_scaled(T scale, MatrixView<const T> from, MatrixView<T> to) {
  assert(from.stride == from.rows && to.stride == to.rows);
  for_each(context(to.device), to.rows * to.cols,
           [=] __device__(Index e) { to.data[e] = scale * from.data[e]; });
}

template <class T>
void add_terms(const std::array<T, 4>& c, const std::array<MatrixView<const T>, 3>& powers,
               bool with_identity, MatrixView<T> to) {
  assert(to.stride == to.rows);
  const T c0 = with_identity ? c[0] : T{0}, c1 = c[1], c2 = c[2], c3 = c[3];
  const T* first = powers[0].data;
  const T* second = powers[1].data;
  const T* third = powers[2].data;
  for_each(context(to.device), to.rows * to.cols, [=] __device__(Index e) {
    T sum = to.data[e];
    if (e % (to.rows + 1) == 0) sum += c0;
    to.data[e] = sum + c1 * first[e] + c2 * second[e] + c3 * third[e];
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                        \
  template double one_norm<T>(MatrixView<const T>);                                                    \
  template void assign_scaled<T>(T, MatrixView<const T>, MatrixView<T>);                               \
  template void add_terms<T>(const std::array<T, 4>&, const std::array<MatrixView<const T>, 3>&, bool, \
                             MatrixView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
