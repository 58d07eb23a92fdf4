#pragma once

#include <algorithm>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"

namespace orthornn::cuda {

/// Threads of a block that lie along the rows of a column-major matrix, so that narrow ones keep them busy
/// too. A power of two.
constexpr unsigned threads_along_rows(Index rows) {
  constexpr unsigned most = 64;
  unsigned threads = 1;
  while (threads < most && threads < rows) threads *= 2;
  return threads;
}

/// Threads of a block that lie along packs of neighbouring rows, where a thread reads or writes a pack at
/// once: a thread for each pack of a column, in whole warps, up to 256. So a block has whole columns. Memory
/// is slower where the parts of a column are written at different times.
constexpr unsigned threads_over_rows(Index packs) {
  constexpr Index most = 256;
  if (packs <= warp_size) return threads_along_rows(packs);
  return static_cast<unsigned>(std::min(most, (packs + warp_size - 1) / warp_size * warp_size));
}

template <class Body>
__global__ void for_each_entry_kernel(Index rows, Index columns, Body body) {
  const Index first_column = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  const Index row_stride = static_cast<Index>(gridDim.y) * blockDim.x;
  const Index column_stride = static_cast<Index>(gridDim.x) * blockDim.y;
  for (Index row = static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x; row < rows; row += row_stride) {
    for (Index column = first_column; column < columns; column += column_stride) body(row, column);
  }
}

/// Blocks and threads of such a kernel.
inline LaunchShape shape_over_entries(const Context& gpu, Index rows, Index columns) {
  constexpr unsigned threads = 256;
  constexpr unsigned blocks_per_multiprocessor = 8;
  const unsigned x = threads_along_rows(rows);
  const unsigned y = threads / x;
  // CUDA allows so many along y; the kernel goes on from there.
  constexpr unsigned most_row_blocks = 65'535;
  const unsigned row_blocks = std::min(blocks_for(rows, x), most_row_blocks);
  const Index column_blocks = blocks_for(columns, y);
  const Index most = 1 + static_cast<Index>(gpu.multiprocessors()) * blocks_per_multiprocessor / row_blocks;
  return {.grid = dim3(static_cast<unsigned>(column_blocks < most ? column_blocks : most), row_blocks),
          .block = dim3(x, y)};
}

/// body(row, column) for the entries of a rows x columns matrix, in no order, neighbouring threads in
/// neighbouring rows: what `for_each` would need a division for. `body` is a __device__ lambda that captures
/// by value.
template <class Body>
void for_each_entry(const Context& gpu, Index rows, Index columns, Body body) {
  if (rows == 0 || columns == 0) return;
  launch(gpu, for_each_entry_kernel<Body>, shape_over_entries(gpu, rows, columns), rows, columns, body);
}

}  // namespace orthornn::cuda
