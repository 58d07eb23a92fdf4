#pragma once

#include <algorithm>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/linalg/column_sums.hpp"
#include "orthornn/core/saved.hpp"

namespace orthornn {

/// sum [N] <- the sum of the columns of a matrix with N rows, of numbers of T or bfloat16. The CPU sums
/// in double: T * B terms in one float lose digits.
template <class T, class P>
void sum_columns(MatrixView<const P> columns, TensorView<T> sum, Saved& scratch) {
  if constexpr (has_cuda_bodies) {
    if (columns.device.is_cuda()) return cuda::sum_columns<T>(columns, {.total = sum});
  }
  const Index size = sum.size();
  const Saved::Scope scope(scratch);
  const TensorView<double> sums = scratch.push<double>({size});
  // Threads share the entries, so every sum keeps its order.
  parallel_for(size, 16, [&](Index first, Index last) {
    std::fill(sums.data() + first, sums.data() + last, 0.0);
    for (Index j = 0; j < columns.cols; ++j) {
      for (Index n = first; n < last; ++n)
        sums(n) += static_cast<double>(static_cast<T>(columns.column(j)[n]));
    }
  });
  std::transform(sums.begin(), sums.end(), sum.begin(), [](double x) { return static_cast<T>(x); });
}

/// The same for rows [.., N].
template <class T>
void sum_rows(TensorView<const T> rows, TensorView<T> sum, Saved& scratch) {
  sum_columns<T>(columns_of(rows), sum, scratch);
}

}  // namespace orthornn
