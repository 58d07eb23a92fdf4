#include <type_traits>

#include "cuda/core/for_each.cuh"
#include "cuda/linalg/elementwise.hpp"
#include "cuda/linalg/inverse.hpp"

namespace orthornn::cuda {
namespace {

constexpr int block_size = 64;
// Entries that a thread has on their way at the same time: one by one, 64 of them took 28 us.
constexpr int entries_at_once = 16;

/// Writes block (blockIdx.x, blockIdx.y) of `to`, but only the corner of `size` x `size` entries of `to`: the
/// inverse of that block of `a` on the diagonal, the block itself above it, zeros below. `to` may be `a` if
/// there is only one block. `count` is a's size.
template <class T, class Result>
__global__ void __launch_bounds__(block_size)
    invert_diagonal_blocks(const T* a, Index stride, Index count, double diagonal, Result* to,
                           Index to_stride, Index size) {
  const Index first_row = static_cast<Index>(blockIdx.x) * block_size;
  const Index first_col = static_cast<Index>(blockIdx.y) * block_size;
  const int thread = static_cast<int>(threadIdx.x);
  const auto entry = [&](Index row, Index col) {
    return row < col && col < count ? static_cast<double>(a[row + col * stride]) : 0.0;
  };
  if (first_row != first_col) {
    const Index row = first_row + thread;
    for (Index col = first_col; col < first_col + block_size; col += entries_at_once) {
      double entries[entries_at_once];
#pragma unroll
      for (int i = 0; i < entries_at_once; ++i) entries[i] = entry(row, col + i);
#pragma unroll
      for (int i = 0; i < entries_at_once; ++i) {
        if (row < size && col + i < size) to[row + (col + i) * to_stride] = static_cast<Result>(entries[i]);
      }
    }
    return;
  }

  __shared__ double block[block_size][block_size];  // a column in each row
#pragma unroll entries_at_once
  for (int col = 0; col < block_size; ++col) block[col][thread] = entry(first_row + thread, first_col + col);
  __syncthreads();
  // Each thread solves for one column of the inverse in its registers, from the last row up. All threads read
  // the same entry at the same time, and updates of different rows are independent.
  const double reciprocal = 1 / diagonal;
  double column[block_size];
#pragma unroll
  for (int row = 0; row < block_size; ++row) column[row] = row == thread ? 1.0 : 0.0;
#pragma unroll
  for (int solved = block_size - 1; solved >= 0; --solved) {
    column[solved] *= reciprocal;
#pragma unroll
    for (int row = 0; row < block_size; ++row) {
      if (row < solved) column[row] -= block[solved][row] * column[solved];
    }
  }
  const Index col = first_col + thread;
#pragma unroll
  for (int row = 0; row < block_size; ++row) {
    if (first_row + row < size && col < size) {
      to[first_row + row + col * to_stride] = static_cast<Result>(column[row]);
    }
  }
}

}  // namespace

template <class T>
void invert_general(MatrixView<T> a, MatrixView<T> inverse, std::int64_t* pivots) {
  constexpr cudaDataType_t type = std::is_same_v<T, double> ? CUDA_R_64F : CUDA_R_32F;
  Context& gpu = context(a.device);
  const cusolverDnParams_t parameters = gpu.solver_parameters();
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXgetrf_bufferSize(gpu.solver(), parameters, a.rows, a.cols, type, a.data, a.stride, type,
                                    &on_device, &on_host));
  // The previous call may still use the host memory.
  if (on_host > 0) gpu.wait();
  // The status of a singular matrix lies in front of the workspace on the device and is not read: the inverse
  // is then not finite.
  constexpr std::size_t aligned = 256;
  auto* scratch = gpu.scratch<std::byte>(aligned + on_device);
  auto* info = reinterpret_cast<int*>(scratch);
  check(cusolverDnXgetrf(gpu.solver(), parameters, a.rows, a.cols, type, a.data, a.stride, pivots, type,
                         scratch + aligned, on_device, gpu.host_scratch(on_host), on_host, info));
  set_identity<T>(inverse);
  check(cusolverDnXgetrs(gpu.solver(), parameters, CUBLAS_OP_N, a.rows, a.cols, type, a.data, a.stride,
                         pivots, type, inverse.data, inverse.stride, info));
  copy_matrix<T>(inverse, a);
}

template <class T>
void invert_upper_triangular(MatrixView<T> a, double diagonal) {
  Context& gpu = context(a.device);
  const Index count = a.cols;
  if (count <= block_size) {
    return launch(gpu, invert_diagonal_blocks<T, T>, {.grid = 1, .block = block_size}, a.data, a.stride,
                  count, diagonal, a.data, a.stride, count);
  }
  Index padded = block_size;
  while (padded < count) padded *= 2;
  double* inverse = gpu.scratch<double>(static_cast<std::size_t>(padded * padded + padded * padded / 4));
  double* products = inverse + padded * padded;
  const auto blocks = static_cast<unsigned>(padded / block_size);
  launch(gpu, invert_diagonal_blocks<T, double>, {.grid = dim3(blocks, blocks), .block = block_size}, a.data,
         a.stride, count, diagonal, inverse, padded, padded);
  const double one = 1, minus_one = -1, zero = 0;
  for (Index size = block_size; size < padded; size *= 2) {
    const Index next_pair = 2 * size * (padded + 1);
    const Index pairs = padded / (2 * size);
    double* off_diagonal = inverse + size * padded;
    double* second = off_diagonal + size;
    check(cublasDgemmStridedBatched_64(gpu.blas(), CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one,
                                       off_diagonal, padded, next_pair, second, padded, next_pair, &zero,
                                       products, size, size * size, pairs));
    check(cublasDgemmStridedBatched_64(gpu.blas(), CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &minus_one,
                                       inverse, padded, next_pair, products, size, size * size, &zero,
                                       off_diagonal, padded, next_pair, pairs));
  }
  for_each(gpu, count * count, [=] __device__(Index e) {
    const Index row = e % count, col = e / count;
    a.data[row + col * a.stride] = static_cast<T>(inverse[row + col * padded]);
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                 \
  template void invert_general<T>(MatrixView<T>, MatrixView<T>, std::int64_t*); \
  template void invert_upper_triangular<T>(MatrixView<T>, double);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
