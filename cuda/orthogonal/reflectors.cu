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

/// u = v / |v|, [N], by `count` threads of which this is number `thread`. `largest_of` and `sum_of` reduce a
/// number over these threads. Writes the norm, and reports vector `index` where it has none.
template <class T>
__device__ void normalize(const T* v, T* u, T* norms, Index index, Index n, unsigned thread, unsigned count,
                          FaultWord* faults, const auto& largest_of, const auto& sum_of) {
  T largest = 0;
  for (Index k = thread; k < n; k += count) largest = max(largest, fabs(v[k]));
  largest = largest_of(largest);
  // Scaled by the largest entry, so that squares of very small or large entries neither underflow nor
  // overflow.
  const T scale = largest > 0 ? largest : T{1};
  T squares = 0;
  for (Index k = thread; k < n; k += count) squares += (v[k] / scale) * (v[k] / scale);
  const T norm = largest * sqrt(sum_of(squares));
  for (Index k = thread; k < n; k += count) u[k] = v[k] / scale * (scale / norm);
  if (thread != 0) return;
  norms[index] = norm;
  if (norm == 0) {
    report_fault(faults, Fault::zero_reflection_vector, index);
  } else if (!isfinite(norm)) {
    report_fault(faults, Fault::reflection_vector_not_finite, index);
  }
}

template <class T>
__global__ void normalize_kernel(const T* vectors, T* units, T* norms, Index n, FaultWord* faults) {
  __shared__ T maxima[threads / warp_size];
  __shared__ T sums[threads / warp_size];
  const Index i = blockIdx.x;
  normalize(
      vectors + i * n, units + i * n, norms, i, n, threadIdx.x, threads, faults,
      [&](T x) { return block_max(x, maxima); }, [&](T x) { return block_sum(x, sums); });
}

constexpr int small = static_cast<int>(largest_small_reflectors);

/// All of reflection_matrix in one block, whose threads take entries in turn:
///   1. U, a vector a warp.
///   2. S = I / 2 + the strict upper part of U^T U.
///   3. S^-1 by back substitution, a column a thread, in double as invert_upper_triangular.
///   4. W = U S^-1.
///   5. Q = I - W U^T.
template <class T>
__global__ void __launch_bounds__(threads)
    small_reflection_matrix_kernel(const T* vectors, int l, int n, T* units, T* norms, T* s_inverse, T* q,
                                   FaultWord* faults) {
  __shared__ double s[small][small], inverse[small][small];
  __shared__ T w[small][small];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const auto for_each_entry = [&](int rows, int columns, const auto& body) {
    for (int i = thread; i < rows * columns; i += static_cast<int>(threads)) body(i / columns, i % columns);
    __syncthreads();
  };
  for (int i = thread / 32; i < l; i += static_cast<int>(threads) / 32) {
    normalize(
        vectors + i * n, units + i * n, norms, i, n, static_cast<unsigned>(lane), warp_size, faults,
        [](T x) { return warp_max(x); }, [](T x) { return warp_sum(x); });
  }
  __syncthreads();
  for_each_entry(l, l, [&](int i, int j) {
    T sum = 0;
    for (int k = 0; k < n; ++k) sum += units[i * n + k] * units[j * n + k];
    s[i][j] = sum;
  });
  if (thread < l) {
    for (int i = l - 1; i >= 0; --i) {
      double x = i == thread ? 1.0 : 0.0;
      for (int k = i + 1; k <= thread; ++k) x -= s[i][k] * inverse[k][thread];
      inverse[i][thread] = i <= thread ? 2 * x : 0.0;
    }
  }
  __syncthreads();
  for_each_entry(l, l, [&](int i, int j) { s_inverse[i + j * l] = static_cast<T>(inverse[i][j]); });
  for_each_entry(n, l, [&](int i, int j) {
    T sum = 0;
    for (int k = 0; k <= j; ++k) sum += units[k * n + i] * static_cast<T>(inverse[k][j]);
    w[i][j] = sum;
  });
  for_each_entry(n, n, [&](int i, int j) {
    T sum = 0;
    for (int k = 0; k < l; ++k) sum += w[i][k] * units[k * n + j];
    q[i * n + j] = (i == j ? T{1} : T{0}) - sum;
  });
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
void small_reflection_matrix(ConstTensorView<T> v, TensorView<T> u, TensorView<T> norms,
                             TensorView<T> s_inverse, TensorView<T> q) {
  Context& gpu = context(u.device());
  launch(gpu, small_reflection_matrix_kernel<T>, {.grid = 1, .block = threads}, v.data(),
         static_cast<int>(v.shape()[0]), static_cast<int>(v.shape()[1]), u.data(), norms.data(),
         s_inverse.data(), q.data(), gpu.faults());
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

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void normalize_reflectors<T>(ConstTensorView<T>, TensorView<T>, TensorView<T>);                  \
  template void small_reflection_matrix<T>(ConstTensorView<T>, TensorView<T>, TensorView<T>, TensorView<T>, \
                                           TensorView<T>);                                                  \
  template void inverse_s_factor<T>(MatrixView<const T>, MatrixView<T>);                                    \
  template void backward_of_normalize<T>(ConstTensorView<T>, ConstTensorView<T>, ConstTensorView<T>,        \
                                         TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
