#pragma once

#include <array>
#include <cstddef>

#include "pointwise/numbers.hpp"

namespace orthornn::pointwise {

/// One step t of a gated recurrence of N units for B sequences, [B, ..] in C order; null for what is not
/// there. A formula (Lstm, Gru) has G gates and one or two states: h, and c.
template <class T>
struct GatedStep {
  Index length = 0;                       ///< T
  Index step = 0;                         ///< t, from 0
  Index size = 0;                         ///< N
  const std::int32_t* lengths = nullptr;  ///< [B]
  /// [B, G N]. Forward: arguments of the gates -> gates. Backward: gates -> gradients of their arguments.
  T* gates = nullptr;
  /// [.., G N], R h_{t-1} + b' where the formula has it apart from the gates, for the sequences from
  /// `first_product` on. Backward: -> its gradient.
  T* products = nullptr;
  Index first_product = 0;
  /// [B, N], the last N numbers of a row of `products` where those of a step are not kept until the backward.
  /// Backward: -> their gradient.
  T* kept_products = nullptr;
  /// [3, H W N], or null: weights of the cells in the arguments of the gates i, f and o, where a sequence is
  /// a pixel of a frame.
  const T* peepholes = nullptr;
  Index peepholes_of_gate = 0;          ///< H W N
  std::array<const T*, 2> before = {};  ///< States before the step, [B, N] each.
  std::array<T*, 2> after = {};         ///< States after it.
  std::array<T*, 2> last = {};          ///< Forward: states after the last live step.
  std::array<const T*, 2> d_last = {};  ///< Backward: gradients that arrive at them.
  const T* d_h = nullptr;               ///< [B, N], backward: gradient that arrives at h_t.
  T* d_h_before = nullptr;              ///< [B, N], backward: gets what reaches h_{t-1} past the product.
  T* d_c = nullptr;                     ///< [B, N], backward: gradient of c_t -> of c_{t-1}.

  constexpr Index live(Index b) const { return live_steps(lengths, length, b); }
  /// The weight of gate i; those of f and o are so many numbers of a gate further. Null without peepholes.
  constexpr const T* peepholes_of(Index n, Index b) const {
    return peepholes == nullptr ? nullptr : peepholes + (b * size + n) % peepholes_of_gate;
  }
  constexpr T* products_of(Index gates_of_unit, Index n, Index b) const {
    return products + gates_of_unit * (b - first_product) * size + n;
  }
};

/// The states after a step: those of a formula at live steps, 0 beyond them.
template <class T, class Formula>
struct GatedForward {
  GatedStep<T> step;

  template <class V>
  constexpr void run(Index n, Index b) const {
    const Index live = step.live(b), at = b * step.size + n;
    if (step.step < live) {
      Formula::template forward<V>(step, n, b);
    } else {
      for (std::size_t i = 0; i < Formula::states; ++i) store(V(0), step.after[i] + at);
    }
    if (step.step + 1 != live || step.last[0] == nullptr) return;
    for (std::size_t i = 0; i < Formula::states; ++i) store(load<V>(step.after[i] + at), step.last[i] + at);
  }
  constexpr void operator()(Index n, Index b) const { run<T>(n, b); }
};

/// The gradients of a step: those of a formula at live steps, 0 beyond them. What arrives at the last states
/// is added at the last live step.
template <class T, class Formula>
struct GatedBackward {
  GatedStep<T> step;

  template <class V>
  constexpr void run(Index n, Index b) const {
    const Index live = step.live(b), at = b * step.size + n;
    if (step.step >= live) {
      for (Index gate = 0; gate < Formula::gates; ++gate) {
        const Index place = (Formula::gates * b + gate) * step.size + n;
        store(V(0), step.gates + place);
        if (Formula::separate_products)
          store(V(0), step.products_of(Formula::gates, n, b) + gate * step.size);
      }
      if (step.kept_products != nullptr) store(V(0), step.kept_products + at);
      return;
    }
    const bool is_last = step.step + 1 == live;
    V d_h = load<V>(step.d_h + at);
    if (is_last && step.d_last[0] != nullptr) d_h = d_h + load<V>(step.d_last[0] + at);
    Formula::template backward<V>(step, n, b, is_last, d_h);
  }
  constexpr void operator()(Index n, Index b) const { run<T>(n, b); }
};

}  // namespace orthornn::pointwise
