#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// Q = (I + A)^-1 (I - A) D, orthogonal up to rounding times |A|, with A = X - X^T and fixed signs D (scoRNN,
/// Helfrich et al. 2018).
struct ScaledCayley {
  static constexpr const char* name = "cayley";
  static constexpr const char* title = "scaled Cayley";
  /// Entries of D that are -1, the first ones.
  Index negative_signs = 0;
  Init init = Init::cayley;

  static void fields(auto&& visit) {
    visit("negative_signs", &ScaledCayley::negative_signs, domain::not_negative,
          "entries -1 of its fixed diagonal");
    init_field<ScaledCayley>(visit);
  }
  /// "skew_parameters" [N, N].
  Parameter parameter(Index hidden_size) const;
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
