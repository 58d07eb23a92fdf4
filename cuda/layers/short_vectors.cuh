#pragma once
// Vectors of few numbers, of which a warp has several at a time: the queries, keys and values of a step, and
// what is read from its states. A lane holds neighbours, which are read and written in one access where they
// are aligned. Sums over a vector need no barrier.

#include <algorithm>
#include <type_traits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"

namespace orthornn::cuda {

/// Vectors of one size that lie side by side in each of some rows.
struct VectorGroup {
  Index first;      // number of a row with which its first vector begins
  Index vectors;    // of a row
  Index size;       // of a vector
  Index lanes = 1;  // that have a vector: a power of two
};

/// Goes over the vectors of a group, `lanes` lanes of the grid with each.
struct VectorWalk {
  Index row, vector;
  /// The same for all threads of a grid, so that whole warps take part in sums: lanes without a vector are at
  /// a row past the last then.
  Index rounds;

  __device__ VectorWalk(const VectorGroup& group, Index rows) : vectors_(group.vectors) {
    const Index own = grid_thread() / group.lanes,
                stride = static_cast<Index>(gridDim.x) * (blockDim.x / group.lanes);
    row = own / vectors_;
    vector = own % vectors_;
    row_stride_ = stride / vectors_;
    vector_stride_ = stride % vectors_;
    rounds = (rows * vectors_ + stride - 1) / stride;
  }
  /// Goes to this thread's next vector, without a division.
  __device__ void advance() {
    --rounds;
    row += row_stride_;
    vector += vector_stride_;
    if (vector < vectors_) return;
    vector -= vectors_;
    ++row;
  }

 private:
  Index vectors_, row_stride_, vector_stride_;
};

/// Calls body(count, group, shape) for the vectors of `rows` rows. A lane has `count` neighbours, a constant:
/// the largest that divides the vectors and for which fits(count) says that packs are aligned.
template <class Fits, class Body>
void with_packs(const Context& gpu, Index rows, VectorGroup group, const Fits& fits, const Body& body) {
  if (rows == 0 || group.vectors == 0 || group.size == 0) return;
  constexpr unsigned threads = 256;
  constexpr Index blocks_per_multiprocessor = 8;
  const auto call = [&](auto count) {
    while (group.lanes < warp_size && group.lanes * count < group.size) group.lanes *= 2;
    const Index blocks = blocks_for(rows * group.vectors, threads / group.lanes),
                most = gpu.multiprocessors() * blocks_per_multiprocessor;
    body(count, group, LaunchShape{.grid = static_cast<unsigned>(std::min(blocks, most)), .block = threads});
  };
  const auto divides = [&](Index count) {
    return group.size % count == 0 && group.first % count == 0 && fits(count);
  };
  if (divides(4)) return call(std::integral_constant<int, 4>());
  if (divides(2)) return call(std::integral_constant<int, 2>());
  call(std::integral_constant<int, 1>());
}

}  // namespace orthornn::cuda
