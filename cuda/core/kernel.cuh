#pragma once
// Functions for all kernels.

#include <cuda_runtime.h>

#include "cuda/core/fault.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

inline constexpr unsigned warp_size = 32;
inline constexpr unsigned whole_warp = 0xFFFF'FFFF;

/// The dynamic shared memory of the block, aligned for bulk copies.
#ifdef ORTHORNN_EMULATED_CUDA
inline unsigned char* dynamic_shared_memory() { return emulator::dynamic_shared_memory(); }
#else
__device__ __forceinline__ unsigned char* dynamic_shared_memory() {
  extern __shared__ __align__(128) unsigned char memory[];
  return memory;
}
#endif

/// Number of this thread in a grid of one dimension.
__device__ __forceinline__ Index grid_thread() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ void report_fault(FaultWord* faults, Fault fault, Index index) {
  atomicMin(faults, fault_word(fault, index));
}

/// Sums over groups of so many neighbouring lanes, a power of two; the same in all lanes of a group.
template <class T>
__device__ __forceinline__ T sum_over_lanes(T x, unsigned lanes) {
#pragma unroll
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(whole_warp, x, offset);
  return x;
}

/// Sum over the warp, in all its lanes and the same in each.
template <class T>
__device__ __forceinline__ T warp_sum(T x) {
  return sum_over_lanes(x, warp_size);
}

template <class T>
__device__ __forceinline__ T warp_max(T x) {
#pragma unroll
  for (unsigned offset = warp_size / 2; offset > 0; offset /= 2) {
    const T other = __shfl_xor_sync(whole_warp, x, offset);
    x = x < other ? other : x;
  }
  return x;
}

/// Sum over a block of whole warps, the same in all threads, in an order that depends on the size of the
/// block only. `partial` holds a number for each warp, in shared memory. Every thread must call this
/// function. No thread may write to `partial` before the next barrier.
template <class T>
__device__ __forceinline__ T block_sum(T x, T* partial) {
  const unsigned lane = threadIdx.x % warp_size;
  x = warp_sum(x);
  if (lane == 0) partial[threadIdx.x / warp_size] = x;
  __syncthreads();
  T sum = lane < blockDim.x / warp_size ? partial[lane] : T{0};
  return warp_sum(sum);
}

/// The same for the maximum.
template <class T>
__device__ __forceinline__ T block_max(T x, T* partial) {
  x = warp_max(x);
  if (threadIdx.x % warp_size == 0) partial[threadIdx.x / warp_size] = x;
  __syncthreads();
  return warp_max(partial[threadIdx.x % (blockDim.x / warp_size)]);
}

}  // namespace orthornn::cuda
