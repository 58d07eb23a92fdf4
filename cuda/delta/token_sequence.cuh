#pragma once

#include "cuda/core/kernel.cuh"
#include "orthornn/core/tensor.hpp"
#include "orthornn/delta/token_layout.hpp"

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

/// Where the tokens of all sequences lie, as kernels read it.
struct TokenTable {
  /// TokenLayout::on; null for a regular layout, of which the other numbers are.
  const Index* rows;
  /// Rows from the begin of a sequence to that of the next.
  Index distance;
  /// Those of TokenSequence, the same for all sequences.
  Index stride, count;
};

inline TokenTable table_of(const TokenLayout& layout, Device device) {
  if (!layout.is_regular()) return {.rows = layout.on(device).data(), .distance = 0, .stride = 0, .count = 0};
  if (layout.size() == 0) return {};
  return {.rows = nullptr,
          .distance = layout.size() > 1 ? layout[1].first : 0,
          .stride = layout[0].stride,
          .count = layout[0].count};
}

__device__ __forceinline__ TokenSequence sequence_of(const TokenTable& table, Index b) {
  if (table.rows == nullptr) return {b * table.distance, table.stride, table.count, b * table.count};
  const Index* row = table.rows + 4 * b;
  return {row[0], row[1], row[2], row[3]};
}

}  // namespace orthornn::cuda
