#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// The scaled Cayley transform Q = (I + A)^-1 (I - A) D with A = X - X^T and fixed signs D, orthogonal up to
/// rounding times |A| (docs/math.md, section 3.2; scoRNN, Helfrich, Willmott and Ye, ICML 2018). With the
/// default of no negative signs, Q is not scaled.
struct ScaledCayley {
  static constexpr const char* name = "cayley";          ///< Name in files and on the command line.
  static constexpr const char* title = "scaled Cayley";  ///< Name in tables and plots.
  /// Number of diagonal entries of D that are -1, 0 to N: the first ones. The others are 1.
  Index negative_signs = 0;
  /// How X is drawn.
  Init init = Init::cayley;

  static void fields(auto&& visit) {
    visit("negative_signs", &ScaledCayley::negative_signs, domain::not_negative,
          "entries -1 of its fixed diagonal");
    init_field<ScaledCayley>(visit);
  }
  /// The parameter "skew_parameters" [N, N], which is X. Throws ValueError for more negative signs than N.
  Parameter parameter(Index hidden_size) const;
  /// Makes the parts of a Transition.
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
