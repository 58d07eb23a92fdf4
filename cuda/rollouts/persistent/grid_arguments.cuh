#pragma once

#include <vector_types.h>

namespace orthornn::cuda {

/// How a rollout over the grid divides its matrix and the batch, and the memory of its exchange. A group of
/// `blocks` holds the matrix. It carries sets of `sequences`: the threads of a block are in as many parts as
/// it carries sets at the same time, and each part carries `rounds` one after another.
struct GridArguments {
  int blocks;     ///< of a group
  int rounds;     ///< sets of a part of the block
  int sequences;  ///< of a set
  int first_sequence;
  int chunks;  ///< of columns of the matrix
  /// Chunks of each of the eight slices of columns whose operands lie in shared memory.
  int resident;
  /// Numbers from one sequence of the state to the next.
  int stride;
  /// Operands of the matrix, [blocks][chunks][operands of a chunk].
  const uint4* weights;
  /// [groups][sets][buffers][sequences of a tile][stride]: see grid_exchange.cuh.
  void* states;
};

}  // namespace orthornn::cuda
