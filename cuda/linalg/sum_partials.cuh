#pragma once

#include <algorithm>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"

namespace orthornn::cuda {

/// Of a block of `sum_partials`: sums, and threads a sum at most.
inline constexpr unsigned partial_columns = 32, partial_rows = 32;

template <class T, class Store>
__global__ void sum_partials_kernel(const T* __restrict__ partial, Index rows, Index count, Store store) {
  __shared__ T shared[partial_rows][partial_columns];
  const Index column = static_cast<Index>(blockIdx.x) * partial_columns + threadIdx.x;
  const Index range = (rows + blockDim.y - 1) / blockDim.y, first = threadIdx.y * range;
  const Index last = first + range < rows ? first + range : rows;
  T sum = 0;
  if (column < count) {
#pragma unroll 8
    for (Index row = first; row < last; ++row) sum += partial[row * count + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= count) return;
  T total = 0;
  for (unsigned y = 0; y < blockDim.y; ++y) total += shared[y][threadIdx.x];
  store(column, total);
}

/// The most numbers of such partial sums: they are read again, and take memory.
inline constexpr Index max_partial_sums = Index{1} << 24;

/// store(column, sum) for the sums of the rows of `partial` [rows, count], which other blocks have left
/// there: threads add ranges of rows, and then one adds the ranges. So the order depends on the sizes alone.
/// `store` is a __device__ lambda that captures by value.
template <class T, class Store>
void sum_partials(const Context& gpu, const T* partial, Index rows, Index count, Store store) {
  if (count == 0) return;
  // A thread reads eight rows at once.
  const unsigned y = std::clamp(blocks_for(rows, 8), 1U, partial_rows);
  launch(gpu, sum_partials_kernel<T, Store>,
         {.grid = blocks_for(count, partial_columns), .block = dim3(partial_columns, y)}, partial, rows,
         count, store);
}

}  // namespace orthornn::cuda
