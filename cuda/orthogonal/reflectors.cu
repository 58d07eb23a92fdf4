#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/linalg/gemm.hpp"
#include "cuda/linalg/inverse.hpp"
#include "cuda/orthogonal/reflectors.hpp"

namespace orthornn::cuda {
namespace {

// One block for each vector.
constexpr unsigned threads = 256;

/// As block_sum, of numbers that are not negative; NaNs are lost.
template <class T>
__device__ T block_max(T x, T* partial) {
  const unsigned lane = threadIdx.x % warp_size;
  x = warp_max(x);
  if (lane == 0) partial[threadIdx.x / warp_size] = x;
  __syncthreads();
  return warp_max(lane < blockDim.x / warp_size ? partial[lane] : T{0});
}

template <class T>
__global__ void normalize_kernel(const T* vectors, T* units, T* norms, Index n, FaultWord* faults) {
  __shared__ T maxima[threads / warp_size];
  __shared__ T sums[threads / warp_size];
  const T* v = vectors + blockIdx.x * n;
  T* u = units + blockIdx.x * n;
  T largest = 0;
  for (Index k = threadIdx.x; k < n; k += threads) largest = max(largest, fabs(v[k]));
  largest = block_max(largest, maxima);
  // Scaled by the largest entry, so that squares of very small or large entries neither underflow nor
  // overflow.
  const T scale = largest > 0 ? largest : T{1};
  T squares = 0;
  for (Index k = threadIdx.x; k < n; k += threads) squares += (v[k] / scale) * (v[k] / scale);
  const T norm = largest * sqrt(block_sum(squares, sums));
  for (Index k = threadIdx.x; k < n; k += threads) u[k] = v[k] / scale * (scale / norm);
  if (threadIdx.x != 0) return;
  norms[blockIdx.x] = norm;
  if (norm == 0) {
    report_fault(faults, Fault::zero_reflection_vector, blockIdx.x);
  } else if (!isfinite(norm)) {
    report_fault(faults, Fault::reflection_vector_not_finite, blockIdx.x);
  }
}

template <class T>
__global__ void backward_of_normalize_kernel(const T* units, const T* norms, const T* d_units, T* d_vectors,
                                             Index n) {
  __shared__ T sums[threads / warp_size];
  const T* u = units + blockIdx.x * n;
  const T* du = d_units + blockIdx.x * n;
  T* dv = d_vectors + blockIdx.x * n;
  T along = 0;
  for (Index k = threadIdx.x; k < n; k += threads) along += u[k] * du[k];
  along = block_sum(along, sums);
  const T norm = norms[blockIdx.x];
  for (Index k = threadIdx.x; k < n; k += threads) dv[k] = (du[k] - along * u[k]) / norm;
}

}  // namespace

template <class T>
void normalize_reflectors(ConstTensorView<T> v, TensorView<T> u, TensorView<T> norms) {
  Context& gpu = context(u.device());
  launch(gpu, normalize_kernel<T>, {.grid = static_cast<unsigned>(v.shape()[0]), .block = threads}, v.data(),
         u.data(), norms.data(), v.shape()[1], gpu.faults());
}

template <class T>
void inverse_s_factor(MatrixView<const T> u, MatrixView<T> s_inverse) {
  cuda::gemm<T>(1, transposed(u), u, 0, s_inverse, Precision::fp32);
  cuda::invert_upper_triangular<T>(s_inverse, 0.5);
}

template <class T>
void backward_of_normalize(ConstTensorView<T> u, ConstTensorView<T> norms, ConstTensorView<T> du,
                           TensorView<T> dv) {
  launch(context(dv.device()), backward_of_normalize_kernel<T>,
         {.grid = static_cast<unsigned>(u.shape()[0]), .block = threads}, u.data(), norms.data(), du.data(),
         dv.data(), u.shape()[1]);
}

#define ORTHORNN_INSTANTIATE(T)                                                                      \
  template void normalize_reflectors<T>(ConstTensorView<T>, TensorView<T>, TensorView<T>);           \
  template void inverse_s_factor<T>(MatrixView<const T>, MatrixView<T>);                             \
  template void backward_of_normalize<T>(ConstTensorView<T>, ConstTensorView<T>, ConstTensorView<T>, \
                                         TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
