#pragma once

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"

namespace orthornn::cuda {

namespace partial_rows {

constexpr unsigned columns_of_block = 32, ranges_of_block = 8;

/// A thread adds a range of rows, and then one adds the ranges.
template <class T>
__global__ void sum_kernel(const T* __restrict__ partial, Index rows, Index count, T alpha, T beta,
                           T* __restrict__ sums) {
  __shared__ T shared[ranges_of_block][columns_of_block];
  const Index column = static_cast<Index>(blockIdx.x) * columns_of_block + threadIdx.x;
  const Index range = (rows + ranges_of_block - 1) / ranges_of_block, first = threadIdx.y * range;
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
  for (unsigned y = 0; y < ranges_of_block; ++y) total += shared[y][threadIdx.x];
  sums[column] = alpha * total + (beta == T{0} ? T{0} : beta * sums[column]);
}

}  // namespace partial_rows

/// sums [count] <- alpha times the sum of the rows of partial [rows, count] + beta sums. They are not read
/// for beta = 0. The order of the sums depends on the sizes alone.
template <class T>
void sum_partial_rows(const Context& gpu, T alpha, const T* partial, Index rows, Index count, T beta,
                      T* sums) {
  launch(gpu, partial_rows::sum_kernel<T>,
         {.grid = blocks_for(count, partial_rows::columns_of_block),
          .block = dim3(partial_rows::columns_of_block, partial_rows::ranges_of_block)},
         partial, rows, count, alpha, beta, sums);
}

}  // namespace orthornn::cuda
