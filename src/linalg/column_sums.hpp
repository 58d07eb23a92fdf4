#pragma once

#include "cuda/linalg/column_sums.hpp"
#include "orthornn/core/saved.hpp"

namespace orthornn {

/// Computes the sums in one pass over G, in an order that depends on the sizes alone. G holds numbers of T,
/// or bfloat16 with sums in float. The CPU sums in double: T * B terms in one float lose 1.6 per cent of two
/// million equal gradients. `scratch` is as it was when this returns.
template <class T, class G>
void sum_columns(MatrixView<const G> g, const ColumnSums<T>& sums, Saved& scratch);

/// sum [N] <- the sum of rows [.., N].
template <class T>
void sum_rows(TensorView<const T> rows, TensorView<T> sum, Saved& scratch) {
  sum_columns<T>(columns_of(rows), {.total = sum}, scratch);
}

}  // namespace orthornn
