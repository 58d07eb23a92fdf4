#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// Orthogonal weight normalization, OWN: Q = V (V^T V)^-1/2, the orthogonal matrix that is nearest to V
/// (docs/math.md, section 3.5; Huang, Liu, Lang, Yu, Wang and Li, "Orthogonal weight normalization", AAAI
/// 2018).
struct WeightNormalization {
  static constexpr const char* name = "own";  ///< Name in files and on the command line.
  static constexpr const char* title = "orthogonal weight normalization";  ///< Name in tables and plots.
  /// How V is drawn; V is orthogonal at first, and `normal` is as `haar`.
  Init init = Init::henaff;

  static void fields(auto&& visit) { init_field<WeightNormalization>(visit); }
  /// The parameter "proxy_matrix" [N, N], which is V.
  Parameter parameter(Index hidden_size) const;
  /// Makes the parts of a Transition.
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
