#pragma once

namespace orthornn::cuda {

/// A barrier of `Threads` threads of the block, which other threads do not take part in. Barrier 0 is that of
/// __syncthreads.
template <int Threads>
__device__ __forceinline__ void named_barrier(int name) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "n"(Threads) : "memory");
}

}  // namespace orthornn::cuda
