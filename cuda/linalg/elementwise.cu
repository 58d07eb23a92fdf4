#include <algorithm>

#include "cuda/core/for_each.cuh"
#include "cuda/linalg/elementwise.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned tile = 32;
constexpr unsigned tile_rows_at_a_time = 8;

/// Goes through shared memory, so that neighbouring threads read and write neighbouring numbers. Tiles of
/// `to` are rows x columns: blockIdx.x counts along its rows.
template <class T>
__global__ void transpose_kernel(const T* from, Index from_stride, T* to, Index to_stride, Index rows,
                                 Index cols) {
  __shared__ T entries[tile][tile + 1];  // the padding avoids bank conflicts in a column
  const Index first_row = static_cast<Index>(blockIdx.x) * tile;
  const Index first_col = static_cast<Index>(blockIdx.y) * tile;
  for (unsigned k = threadIdx.y; k < tile; k += tile_rows_at_a_time) {
    const Index row = first_row + k, col = first_col + threadIdx.x;
    if (row < rows && col < cols) entries[k][threadIdx.x] = from[col + row * from_stride];
  }
  __syncthreads();
  for (unsigned k = threadIdx.y; k < tile; k += tile_rows_at_a_time) {
    const Index row = first_row + threadIdx.x, col = first_col + k;
    if (row < rows && col < cols) to[row + col * to_stride] = entries[threadIdx.x][k];
  }
}

/// A block copies columns, and a warp some rows of a column at a time. Numbers are read before any is
/// written, so that enough of them are on the way.
constexpr unsigned copied_columns = 8, copies_of_thread = 4, copied_rows = copies_of_thread * warp_size;

template <class T>
__global__ void copy_matrix_kernel(MatrixView<const T> from, MatrixView<T> to) {
  const Index column = static_cast<Index>(blockIdx.x) * copied_columns + threadIdx.y;
  if (column >= to.cols) return;
  const T* const x = from.data + column * from.stride;
  T* const y = to.data + column * to.stride;
  const Index stride = static_cast<Index>(gridDim.y) * copied_rows;
  for (Index first = static_cast<Index>(blockIdx.y) * copied_rows + threadIdx.x; first < to.rows;
       first += stride) {
    T numbers[copies_of_thread];
#pragma unroll
    for (unsigned i = 0; i < copies_of_thread; ++i) {
      const Index row = first + i * warp_size;
      if (row < to.rows) numbers[i] = x[row];
    }
#pragma unroll
    for (unsigned i = 0; i < copies_of_thread; ++i) {
      const Index row = first + i * warp_size;
      if (row < to.rows) y[row] = numbers[i];
    }
  }
}

}  // namespace

template <class T>
void copy_transposed(MatrixView<const T> from, MatrixView<T> to) {
  if (to.rows == 0 || to.cols == 0) return;
  launch(context(to.device), transpose_kernel<T>,
         {.grid = dim3(blocks_for(to.rows, tile), blocks_for(to.cols, tile)),
          .block = dim3(tile, tile_rows_at_a_time)},
         from.data, from.stride, to.data, to.stride, to.rows, to.cols);
}

template <class T>
void set_zero(MatrixView<T> matrix) {
  if (matrix.rows == 0 || matrix.cols == 0) return;
  check(cudaMemset2DAsync(matrix.data, static_cast<std::size_t>(matrix.stride) * sizeof(T), 0,
                          static_cast<std::size_t>(matrix.rows) * sizeof(T),
                          static_cast<std::size_t>(matrix.cols), context(matrix.device).stream()));
}

template <class T>
void set_identity(MatrixView<T> matrix) {
  for_each(context(matrix.device), matrix.rows * matrix.cols, [=] __device__(Index k) {
    const Index i = k % matrix.rows, j = k / matrix.rows;
    matrix.data[i + j * matrix.stride] = i == j ? T{1} : T{0};
  });
}

template <class T>
void copy_matrix(MatrixView<const T> from, MatrixView<T> to) {
  if (to.rows == 0 || to.cols == 0) return;
  if (from.stride == from.rows && to.stride == to.rows) {
    const auto bytes = static_cast<std::size_t>(to.rows * to.cols) * sizeof(T);
    return check(
        cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToDevice, context(to.device).stream()));
  }
  // cudaMemcpy2DAsync copied columns of 1537 floats at 0.2 TB/s on an H200.
  constexpr unsigned most_row_blocks = 65'535;  // of CUDA; the kernel goes on from there
  launch(context(to.device), copy_matrix_kernel<T>,
         {.grid = dim3(blocks_for(to.cols, copied_columns),
                       std::min(blocks_for(to.rows, copied_rows), most_row_blocks)),
          .block = dim3(warp_size, copied_columns)},
         from, to);
}

#define ORTHORNN_INSTANTIATE(T)                                         \
  template void copy_transposed<T>(MatrixView<const T>, MatrixView<T>); \
  template void set_zero<T>(MatrixView<T>);                             \
  template void set_identity<T>(MatrixView<T>);                         \
  template void copy_matrix<T>(MatrixView<const T>, MatrixView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
