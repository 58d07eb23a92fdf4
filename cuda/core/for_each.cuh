#pragma once

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"

namespace orthornn::cuda {

template <class Body>
__global__ void for_each_kernel(Index count, Body body) {
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = grid_thread(); i < count; i += stride) body(i);
}

/// Calls body(i) for i = 0 .. count - 1, in any order: `body` is a __device__ lambda that captures by value.
template <class Body>
void for_each(const Context& gpu, Index count, Body body) {
  if (count == 0) return;
  constexpr unsigned threads = 256;
  constexpr unsigned blocks_per_multiprocessor = 8;
  const Index blocks = (count + threads - 1) / threads;
  const Index most = static_cast<Index>(gpu.multiprocessors()) * blocks_per_multiprocessor;
  launch(gpu, for_each_kernel<Body>,
         {.grid = static_cast<unsigned>(blocks < most ? blocks : most), .block = threads}, count, body);
}

}  // namespace orthornn::cuda
