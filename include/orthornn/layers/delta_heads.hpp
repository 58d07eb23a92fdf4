#pragma once

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Sizes of a DeltaProductLayer, and where a step's M projections have what: queries [H, K], keys [n, H, K],
/// values [n, H, V], gates [H, V], step sizes [n, H], decays [H], removals [n, H, K]. With removals there are
/// decays [H, K]. It is constexpr, so that kernels can use it.
struct DeltaHeads {
  Index heads, factors, key, value;
  bool gate, decay, removal;
  /// Values are projected; without, they are zeros.
  bool writes;

  constexpr Index queries() const { return heads * key; }
  constexpr Index keys() const { return factors * heads * key; }
  constexpr Index values() const { return writes ? factors * heads * value : 0; }
  constexpr Index betas() const { return factors * heads; }
  constexpr Index decays() const { return decay ? heads * (removal ? key : 1) : 0; }
  constexpr Index removals() const { return removal ? keys() : 0; }
  /// Queries, keys and the values that are projected.
  constexpr Index channels() const { return queries() + keys() + values(); }
  /// What is read from the states.
  constexpr Index outputs() const { return heads * value; }

  constexpr Index first_key() const { return queries(); }
  constexpr Index first_value() const { return queries() + keys(); }
  constexpr Index first_gate() const { return channels(); }
  constexpr Index first_beta() const { return channels() + (gate ? outputs() : 0); }
  constexpr Index first_decay() const { return first_beta() + betas(); }
  constexpr Index first_removal() const { return first_decay() + decays(); }
  /// M.
  constexpr Index width() const { return first_removal() + removals(); }
};

}  // namespace orthornn
