#pragma once

#include "orthornn/delta/delta_sizes.hpp"

namespace orthornn {

struct DeltaProductCell;

/// Sizes of a DeltaProductLayer, and the places in its M projections of a step. The projections are, in this
/// order: queries [H, K], keys [n, H, K], values [n, H, V], gates [H, V], step sizes [n, H], decays [H], or
/// [H, K] with removals, and removals [n, H, K]. It is constexpr, so that kernels can use it.
struct DeltaHeads : DeltaSizes {
  bool gate,    ///< Whether outputs have gates.
      decay,    ///< Whether states decay.
      removal;  ///< Whether factors have removals.
  /// Whether values are projected; otherwise they are zeros.
  bool writes;

  /// Takes the sizes from the options of a layer.
  explicit DeltaHeads(const DeltaProductCell& cell);

  /// Number of projections that are queries.
  constexpr Index queries() const { return heads * key; }
  /// Number of projections that are keys.
  constexpr Index keys() const { return factors * heads * key; }
  /// Number of projections that are values.
  constexpr Index values() const { return writes ? factors * heads * value : 0; }
  /// Number of projections that are step sizes.
  constexpr Index betas() const { return factors * heads; }
  /// Number of projections that are decays.
  constexpr Index decays() const { return decay ? heads * (removal ? key : 1) : 0; }
  /// Number of projections that are removals.
  constexpr Index removals() const { return removal ? keys() : 0; }
  /// Number of projections that are queries, keys or values.
  constexpr Index channels() const { return queries() + keys() + values(); }
  /// Number of values that are read from the states at a step.
  constexpr Index outputs() const { return heads * value; }

  /// Place of the first key.
  constexpr Index first_key() const { return queries(); }
  /// Place of the first value.
  constexpr Index first_value() const { return queries() + keys(); }
  /// Place of the first gate.
  constexpr Index first_gate() const { return channels(); }
  /// Place of the first step size.
  constexpr Index first_beta() const { return channels() + (gate ? outputs() : 0); }
  /// Place of the first decay.
  constexpr Index first_decay() const { return first_beta() + betas(); }
  /// Place of the first removal.
  constexpr Index first_removal() const { return first_decay() + decays(); }
  /// Number M of projections of a step.
  constexpr Index width() const { return first_removal() + removals(); }
};

}  // namespace orthornn
