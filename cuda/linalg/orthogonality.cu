#include "cuda/core/device.hpp"
#include "cuda/core/for_each.cuh"
#include "cuda/linalg/gemm.hpp"
#include "cuda/linalg/orthogonality.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned blocks = 256;

/// fmax would drop a NaN.
__host__ __device__ inline double larger(double a, double b) { return a > b || isnan(a) ? a : b; }

/// The largest |I - gram| of each block's entries.
__global__ void distance_from_identity_kernel(const double* gram, Index m, double* maxima) {
  __shared__ double partial[threads / warp_size];
  double largest = 0;
  for (Index e = grid_thread(); e < m * m; e += threads * blocks) {
    largest = larger(largest, fabs(gram[e] - (e % (m + 1) == 0 ? 1.0 : 0.0)));
  }
  for (unsigned offset = warp_size / 2; offset > 0; offset /= 2) {
    largest = larger(largest, __shfl_xor_sync(whole_warp, largest, static_cast<int>(offset)));
  }
  if (threadIdx.x % warp_size == 0) partial[threadIdx.x / warp_size] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const double other : partial) largest = larger(largest, other);
  maxima[blockIdx.x] = largest;
}

}  // namespace

template <class T>
double orthogonality_error(TensorView<const T> q) {
  Context& gpu = context(q.device());
  const Index n = q.shape()[0];
  const Index m = q.shape()[1];
  double* exact = gpu.scratch<double>(static_cast<std::size_t>(n * m + m * m) + blocks);
  double* gram = exact + n * m;
  double* maxima = gram + m * m;
  const T* from = q.data();
  for_each(gpu, n * m, [=] __device__(Index e) { exact[e] = static_cast<double>(from[e]); });
  const MatrixView<const double> transpose(exact, m, n, m, q.device());
  cuda::gemm<double>(1, transpose, transposed(transpose), 0, MatrixView<double>(gram, m, m, m, q.device()),
                     Precision::fp32);
  launch(gpu, distance_from_identity_kernel, {.grid = blocks, .block = threads}, gram, m, maxima);
  double on_host[blocks];
  cuda::copy_bytes(Device::cpu(), on_host, q.device(), maxima, sizeof on_host);
  double error = 0;
  for (const double other : on_host) error = larger(error, other);
  return error;
}

template double orthogonality_error<float>(TensorView<const float>);
template double orthogonality_error<double>(TensorView<const double>);

}  // namespace orthornn::cuda
