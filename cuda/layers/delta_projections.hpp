#pragma once

#include <cmath>

#include "orthornn/delta/delta_product.hpp"
#include "orthornn/layers/delta_heads.hpp"
#include "pointwise/numbers.hpp"

namespace orthornn {

/// The projections of a DeltaProductLayer for T steps of B sequences, and what turns them into the input of a
/// delta product. Row t B + b is step t of sequence b.
template <class T>
struct DeltaProjections {
  DeltaHeads heads;
  /// T, B, and the steps W that the convolution sees; 1 without one.
  Index length, batch, window;
  /// [W - 1 + T, B, M]; what the convolution saw before the first step comes first, in its channels.
  const T* rows;
  /// [W, C], the filter of the step itself last; or null.
  const T* filters;
  /// [H], the logarithm of how fast states decay; null without decay, and with removals.
  const T* decay_rates;
  /// [B], or null.
  const std::int32_t* lengths;
  /// Queries, keys and values are SiLU(z), or z itself.
  bool silu;
  /// Step sizes are limit * sigma(p + offset).
  T beta_limit, beta_offset;

  constexpr Index steps() const { return length * batch; }
  constexpr bool is_padding(Index row) const {
    return lengths != nullptr && row / batch >= lengths[row % batch];
  }
  /// The M projections of a row, and those of the same sequence `back` steps before.
  constexpr const T* of_row(Index row, Index back = 0) const {
    return rows + (row + (window - 1 - back) * batch) * heads.width();
  }
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

/// log(1 + e^x), without overflow.
template <class T>
constexpr T softplus(T x) {
  return (x > T{0} ? x : T{0}) + std::log1p(std::exp(x > T{0} ? -x : x));
}

/// The step sizes, decays and removals of each row. Entry i is the projection first_beta() + i.
template <class T, class X>
struct ReadGates {
  DeltaProjections<T> p;
  T* betas;
  T* log_decays;
  X* removals;

  constexpr void operator()(Index i, Index row) const { run(i, row, !p.is_padding(row)); }
  constexpr void run(Index i, Index row, bool live) const {
    const DeltaHeads& h = p.heads;
    const T x = p.of_row(row)[h.first_beta() + i];
    if (i < h.betas()) {
      betas[row * h.betas() + i] = live ? p.beta_limit * pointwise::sigmoid(x + p.beta_offset) : T{0};
    } else if (i < h.betas() + h.decays()) {
      const Index j = i - h.betas();
      const T decay = h.removal ? static_cast<T>(largest_row_decay) * pointwise::sigmoid(x)
                                : std::exp(p.decay_rates[j]) * softplus(x);
      log_decays[row * h.decays() + j] = live ? -decay : T{0};
    } else {
      const Index j = i - h.betas() - h.decays();
      removals[row * h.removals() + j] = static_cast<X>(live ? pointwise::sigmoid(x) : T{0});
    }
  }
};

/// The gradients of these projections, in d_rows [T, B, M], from what was read and its gradients.
template <class T, class X>
struct ReadGatesBackward {
  DeltaProjections<T> p;
  const T* betas;
  const T* log_decays;
  const X* removals;
  const T* d_betas;
  const T* d_log_decays;
  const X* d_removals;
  T* d_rows;
  /// The terms of the gradient of the decay rates, [T, B, H]; not read with removals.
  T* d_decay_rates;

  constexpr void operator()(Index i, Index row) const { run(i, row, !p.is_padding(row)); }
  constexpr void run(Index i, Index row, bool live) const {
    const DeltaHeads& h = p.heads;
    T& result = d_rows[row * h.width() + h.first_beta() + i];
    if (i < h.betas()) {
      const Index at = row * h.betas() + i;
      result = live ? d_betas[at] * betas[at] * (T{1} - betas[at] / p.beta_limit) : T{0};
    } else if (i < h.betas() + h.decays()) {
      const Index j = i - h.betas(), at = row * h.decays() + j;
      const T x = p.of_row(row)[h.first_beta() + i];
      const T slope = h.removal ? log_decays[at] * pointwise::sigmoid(-x)
                                : -std::exp(p.decay_rates[j]) * pointwise::sigmoid(x);
      result = live ? d_log_decays[at] * slope : T{0};
      if (!h.removal) d_decay_rates[at] = live ? d_log_decays[at] * log_decays[at] : T{0};
    } else {
      const Index at = row * h.removals() + i - h.betas() - h.decays();
      const T removal = static_cast<T>(removals[at]);
      result = live ? static_cast<T>(d_removals[at]) * removal * (T{1} - removal) : T{0};
    }
  }
};

template <class T, class X>
ReadGatesBackward<T, X> gates_backward(const DeltaProjections<T>& p,
                                       const DeltaVectors<const T, const X>& read,
                                       const DeltaVectors<const T, const X>& d, TensorView<T> d_rows,
                                       TensorView<T> d_decay_rates) {
  return {.p = p,
          .betas = read.betas.data(),
          .log_decays = read.log_decays.data(),
          .removals = read.removals.data(),
          .d_betas = d.betas.data(),
          .d_log_decays = d.log_decays.data(),
          .d_removals = d.removals.data(),
          .d_rows = d_rows.data(),
          .d_decay_rates = d_decay_rates.data()};
}

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
