#include "linalg/column_sums.hpp"

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/parallel.hpp"

namespace orthornn {

template <class T, class G>
void sum_columns(MatrixView<const G> g, const ColumnSums<T>& sums, Saved& scratch) {
  if constexpr (has_cuda_bodies) {
    if (g.device.is_cuda()) return cuda::sum_columns<T>(g, sums);
  }
  const bool has_signs = !sums.signed_total.empty();
  const MatrixView<const T> states = has_signs ? columns_of(sums.states) : MatrixView<const T>();
  const Index symbol_count = sums.by_symbol.empty() ? 0 : sums.by_symbol.shape()[1];
  const Saved::Scope scope(scratch);
  // The total, the signed total, and those of the symbols.
  const TensorView<double> exact = scratch.push<double>({2 + symbol_count, g.rows});
  // Threads share the rows, so every sum keeps its order.
  parallel_for(g.rows, 16, [&](Index first, Index last) {
    const Index count = last - first;
    for (Index k = 0; k < 2 + symbol_count; ++k) std::fill_n(&exact(k, first), count, 0.0);
    const auto add = [&](Index k, const auto& term) {
      double* sum = &exact(k, first);
      for (Index i = 0; i < count; ++i) sum[i] += static_cast<double>(term(i));
    };
    for (Index j = 0; j < g.cols; ++j) {
      const G* column = g.column(j) + first;
      const auto gradient = [&](Index i) { return static_cast<T>(column[i]); };
      add(0, gradient);
      if (has_signs) {
        const T* state = states.column(j) + first;
        add(1, [&](Index i) { return std::copysign(gradient(i), gradient(i) * state[i]); });
      }
      if (symbol_count == 0) continue;
      const Index symbol = sums.symbols.data()[j];
      if (symbol >= 0 && symbol < symbol_count) add(2 + symbol, gradient);
    }
  });
  for (Index n = 0; n < g.rows; ++n) {
    if (!sums.total.empty()) sums.total(n) = static_cast<T>(exact(0, n));
    if (has_signs) sums.signed_total(n) = static_cast<T>(exact(1, n));
    for (Index k = 0; k < symbol_count; ++k) sums.by_symbol(n, k) = static_cast<T>(exact(2 + k, n));
  }
}

template void sum_columns(MatrixView<const float>, const ColumnSums<float>&, Saved&);
template void sum_columns(MatrixView<const bfloat16>, const ColumnSums<float>&, Saved&);
template void sum_columns(MatrixView<const double>, const ColumnSums<double>&, Saved&);

}  // namespace orthornn
