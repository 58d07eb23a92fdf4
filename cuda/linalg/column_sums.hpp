#pragma once

#include <cstdint>

#include "orthornn/linalg/matrix_view.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn {

/// Sums over the columns g_j of a matrix G with N rows. What is empty is not wanted.
template <class T>
struct ColumnSums {
  /// [N], sum of g_j
  TensorView<T> total = {};
  /// [N], sum of sign(h_j) g_j for `states` H [.., N], a state for each column, where g is 0 wherever h is
  TensorView<T> signed_total = {};
  TensorView<const T> states = {};
  /// [N, K], entry (n, k): the sum of those g_j,n whose symbol is k. Symbols outside 0 .. K - 1 count for
  /// nothing. For small K: the cost grows with K, where that of add_by_symbol (src/layers) does not.
  TensorView<T> by_symbol = {};
  TensorView<const std::int32_t> symbols = {};
  /// [N, K], entry (n, k): the sum of g_j,n x_j,k for vectors X [.., K] of at most `most_inputs` numbers. On
  /// a GPU alone, and not beside by_symbol.
  TensorView<T> by_input = {};
  TensorView<const T> inputs = {};
  static constexpr int most_inputs = 8;
};

namespace cuda {

/// As that of orthornn (src/linalg/column_sums.hpp). Enqueues all of them; reads G once (twice when there are
/// symbols and `total`, and more than 16 of them).
template <class T, class G>
void sum_columns(MatrixView<const G> g, const ColumnSums<T>& sums);

}  // namespace cuda
}  // namespace orthornn
