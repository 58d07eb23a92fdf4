#pragma once
// The kernels of the chunked delta product for one kind of product and one size of keys. A source for each
// instantiates them: together they would compile for many minutes.

#include "cuda/core/launch.hpp"
#include "cuda/delta/chunked_arguments.cuh"

namespace orthornn::cuda {

/// What decides the grids: sequences, and tokens of the longest.
struct ChunkedGrid {
  Index sequences, longest;
};

template <class Product, int padded_key>
struct ChunkedKernels {
  using E = typename Product::Element;
  static void forward(const Context& gpu, const ChunkedGrid& grid, const ChunkedArguments<E>& arguments);
  static void backward(const Context& gpu, const ChunkedGrid& grid, const ChunkedArguments<E>& arguments,
                       const ChunkedGradients<E>& gradients);
};

}  // namespace orthornn::cuda
