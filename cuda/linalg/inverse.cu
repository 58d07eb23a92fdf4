#include <type_traits>

#include "cuda/core/for_each.cuh"
#include "cuda/linalg/elementwise.hpp"
#include "cuda/linalg/inverse.hpp"

namespace orthornn::cuda {
namespace {

constexpr int block_size = 64;
// Of invert_diagonal_blocks. A lane has two rows of each column of its warp.
constexpr int warps = 16, lane_rows = block_size / static_cast<int>(warp_size);

/// Writes `warp_columns` columns a warp, and of these the rows of block blockIdx.x, but only the corner of
/// `size` x `size` entries of `to`: the inverse of that block of `a` on the diagonal, the block itself above
/// it, zeros below. `to` may be `a` if one block of threads has all columns. `count` is a's size.
template <int warp_columns, class T, class Result>
__global__ void __launch_bounds__(warps* warp_size)
    invert_diagonal_blocks(const T* a, Index stride, Index count, double diagonal, Result* to,
                           Index to_stride, Index size) {
  const int lane = static_cast<int>(threadIdx.x % warp_size),
            warp = static_cast<int>(threadIdx.x / warp_size);
  const Index first_row = static_cast<Index>(blockIdx.x) * block_size + lane;
  const Index first_col = (static_cast<Index>(blockIdx.y) * warps + warp) * warp_columns;
  const auto above_diagonal = [&](Index row, Index col) {
    return row < col && col < count ? static_cast<double>(a[row + col * stride]) : 0.0;
  };
  double entries[warp_columns][lane_rows];
#pragma unroll
  for (int c = 0; c < warp_columns; ++c) {
#pragma unroll
    for (int r = 0; r < lane_rows; ++r)
      entries[c][r] = above_diagonal(first_row + r * static_cast<int>(warp_size), first_col + c);
  }
  const Index first_of_block = first_col / block_size * block_size;
  if (blockIdx.x == first_of_block / block_size) {
    // The block of `a` is d (I + N), d on the diagonal. This is N, a column in each row.
    __shared__ double block[block_size][block_size];
    const double reciprocal = 1 / diagonal;
#pragma unroll
    for (int col = warp; col < block_size; col += warps) {
#pragma unroll
      for (int r = 0; r < lane_rows; ++r) {
        const int row = lane + r * static_cast<int>(warp_size);
        block[col][row] = above_diagonal(first_of_block + row, first_of_block + col) * reciprocal;
      }
    }
    const auto first_in_block = static_cast<int>(first_col - first_of_block);
#pragma unroll
    for (int c = 0; c < warp_columns; ++c) {
#pragma unroll
      for (int r = 0; r < lane_rows; ++r)
        entries[c][r] = lane + r * static_cast<int>(warp_size) == first_in_block + c ? 1.0 : 0.0;
    }
    __syncthreads();
    // From the diagonal up: columns of the inverse are 0 below. What is solved goes to all lanes.
    const auto solve = [&](int from, int r_solved) {
      const int last = min(from + static_cast<int>(warp_size), first_in_block + warp_columns) - 1;
#pragma unroll 4
      for (int solved = last; solved >= from; --solved) {
#pragma unroll
        for (int c = 0; c < warp_columns; ++c) {
          const double x =
              __shfl_sync(whole_warp, r_solved == 0 ? entries[c][0] : entries[c][1], solved - from);
#pragma unroll
          for (int r = 0; r <= r_solved; ++r)
            entries[c][r] -= block[solved][lane + r * static_cast<int>(warp_size)] * x;
        }
      }
    };
    static_assert(lane_rows == 2);
    solve(static_cast<int>(warp_size), 1);
    solve(0, 0);
#pragma unroll
    for (int c = 0; c < warp_columns; ++c) {
#pragma unroll
      for (double& entry : entries[c]) entry *= reciprocal;
    }
  }
#pragma unroll
  for (int c = 0; c < warp_columns; ++c) {
#pragma unroll
    for (int r = 0; r < lane_rows; ++r) {
      const Index row = first_row + r * static_cast<int>(warp_size), col = first_col + c;
      if (row < size && col < size) to[row + col * to_stride] = static_cast<Result>(entries[c][r]);
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
    return launch(gpu, invert_diagonal_blocks<block_size / warps, T, T>,
                  {.grid = 1, .block = warps * warp_size}, a.data, a.stride, count, diagonal, a.data,
                  a.stride, count);
  }
  Index padded = block_size;
  while (padded < count) padded *= 2;
  double* inverse = gpu.scratch<double>(static_cast<std::size_t>(padded * padded + padded * padded / 4));
  double* products = inverse + padded * padded;
  // The fewer columns a warp has, the sooner it is done with its steps.
  launch(
      gpu, invert_diagonal_blocks<1, T, double>,
      {.grid = dim3(blocks_for(padded, block_size), blocks_for(padded, warps)), .block = warps * warp_size},
      a.data, a.stride, count, diagonal, inverse, padded, padded);
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
