#pragma once

#include "orthornn/delta/delta_product.hpp"
#include "orthornn/layers/delta_heads.hpp"

namespace orthornn {

/// The projections of a DeltaProductLayer and what turns them into the input of a delta product.
template <class T>
struct DeltaProjections {
  DeltaHeads heads;
  /// [W - 1 + T, B, M]; what the convolution saw before the first step comes first, in its channels.
  TensorView<const T> rows;
  /// [W, C], the filter of the step itself last; or empty, W = 1.
  TensorView<const T> filters;
  /// [H], the logarithm of how fast states decay; empty without decay, and with removals.
  TensorView<const T> decay_rates;
  TensorView<const std::int32_t> lengths;
  /// Queries, keys and values are SiLU(z), or z itself.
  bool silu;
  /// Step sizes are limit * sigma(p + offset).
  T beta_limit, beta_offset;

  Index window() const { return filters.empty() ? 1 : filters.shape()[0]; }
  Index length() const { return rows.shape()[0] - window() + 1; }
  Index batch() const { return rows.shape()[1]; }
};

/// The input of a delta product of vectors of X, or the gradients of one.
template <class T, class X>
struct DeltaVectors {
  TensorView<X> queries, keys, values;
  TensorView<T> betas, log_decays = {};
  TensorView<X> removals = {};
};

/// e^(-1/2): with removals, a state's rows keep at least e^(-e^(-1/2)) = 0.545 of themselves at a step.
inline constexpr double largest_row_decay = 0.6065306597126334;

namespace cuda {

/// As those of orthornn (src/layers/delta_projections.hpp).
template <class T, class X>
void read_projections(const DeltaProjections<T>& p, const DeltaVectors<T, X>& to);
template <class T, class X>
void read_projections_backward(const DeltaProjections<T>& p, const DeltaVectors<const T, const X>& read,
                               const DeltaVectors<const T, const X>& d, TensorView<T> d_channels,
                               TensorView<T> d_rows, TensorView<T> d_decay_rates);

}  // namespace cuda
}  // namespace orthornn
