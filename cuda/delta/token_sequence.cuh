#pragma once

#include "cuda/core/kernel.cuh"
#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// Where a tensor lies; null for one without elements.
template <class T>
T* data_or_null(TensorView<T> x) {
  return x.empty() ? nullptr : x.data();
}

/// Where the tokens of a sequence lie: a row of TokenLayout::on.
struct TokenSequence {
  Index first;
  Index stride;
  Index count;
  /// Tokens of all sequences before.
  Index before;

  __device__ __forceinline__ Index row(Index token) const { return first + token * stride; }
};

__device__ __forceinline__ TokenSequence sequence_of(const Index* table, Index b) {
  const Index* row = table + 4 * b;
  return {row[0], row[1], row[2], row[3]};
}

}  // namespace orthornn::cuda
