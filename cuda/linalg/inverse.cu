#include <type_traits>

#include "cuda/core/for_each.cuh"
#include "cuda/linalg/elementwise.hpp"
#include "cuda/linalg/inverse.hpp"

namespace orthornn::cuda {
namespace {

constexpr int block_size = 64;
// Of invert_diagonal_blocks. A warp has four columns of a block, and a lane two rows of each.
constexpr int warps = 16, warp_columns = block_size / warps,
              lane_rows = block_size / static_cast<int>(warp_size);

/// Writes block (blockIdx.x, blockIdx.y) of `to`, but only the corner of `size` x `size` entries of `to`: the
/// inverse of that block of `a` on the diagonal, the block itself above it, zeros below. `to` may be `a` if
/// there is only one block. `count` is a's size.
template <class T, class Result>
__global__ void __launch_bounds__(warps* warp_size)
    invert_diagonal_blocks(const T* a, Index stride, Index count, double diagonal, Result* to,
                           Index to_stride, Index size) {
  const int lane = static_cast<int>(threadIdx.x % warp_size),
            warp = static_cast<int>(threadIdx.x / warp_size);
  const Index first_row = static_cast<Index>(blockIdx.x) * block_size + lane;
  const Index first_col = static_cast<Index>(blockIdx.y) * block_size + warp * warp_columns;
  double entries[warp_columns][lane_rows];
#pragma unroll
  for (int c = 0; c < warp_columns; ++c) {
#pragma unroll
    for (int r = 0; r < lane_rows; ++r) {
      const Index row = first_row + r * static_cast<int>(warp_size), col = first_col + c;
      entries[c][r] = row < col && col < count ? static_cast<double>(a[row + col * stride]) : 0.0;
    }
  }
  if (blockIdx.x == blockIdx.y) {
    __shared__ double block[block_size][block_size];  // a column in each row
#pragma unroll
    for (int c = 0; c < warp_columns; ++c) {
#pragma unroll
      for (int r = 0; r < lane_rows; ++r) {
        const int row = lane + r * static_cast<int>(warp_size), col = warp * warp_columns + c;
        block[col][row] = entries[c][r];
        entries[c][r] = row == col ? 1.0 : 0.0;
      }
    }
    __syncthreads();
    // From the last row of the columns of the inverse up. What is solved goes to all lanes.
    const double reciprocal = 1 / diagonal;
    const auto solve = [&](int from, int r_solved) {
#pragma unroll 4
      for (int solved = from + static_cast<int>(warp_size) - 1; solved >= from; --solved) {
        const int owner = solved - from;
#pragma unroll
        for (int c = 0; c < warp_columns; ++c) {
          const double x =
              __shfl_sync(whole_warp, r_solved == 0 ? entries[c][0] : entries[c][1], owner) * reciprocal;
#pragma unroll
          for (int r = 0; r < lane_rows; ++r) {
            const int row = lane + r * static_cast<int>(warp_size);
            if (row == solved) entries[c][r] = x;
            if (row < solved) entries[c][r] -= block[solved][row] * x;
          }
        }
      }
    };
    static_assert(lane_rows == 2);
    solve(static_cast<int>(warp_size), 1);
    solve(0, 0);
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
    return launch(gpu, invert_diagonal_blocks<T, T>, {.grid = 1, .block = warps * warp_size}, a.data,
                  a.stride, count, diagonal, a.data, a.stride, count);
  }
  Index padded = block_size;
  while (padded < count) padded *= 2;
  double* inverse = gpu.scratch<double>(static_cast<std::size_t>(padded * padded + padded * padded / 4));
  double* products = inverse + padded * padded;
  const auto blocks = static_cast<unsigned>(padded / block_size);
  launch(gpu, invert_diagonal_blocks<T, double>, {.grid = dim3(blocks, blocks), .block = warps * warp_size},
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
