#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// The matrix exponential Q = exp(X - X^T), orthogonal up to rounding times |X| (docs/math.md, section 3.3;
/// EXPRNN, Lezcano-Casado and Martinez-Rubio, ICML 2019).
struct MatrixExponential {
  static constexpr const char* name = "expm";                 ///< Name in files and on the command line.
  static constexpr const char* title = "matrix exponential";  ///< Name in tables and plots.
  /// How X is drawn.
  Init init = Init::henaff;

  static void fields(auto&& visit) { init_field<MatrixExponential>(visit); }
  /// The parameter "skew_parameters" [N, N], which is X.
  Parameter parameter(Index hidden_size) const;
  /// Makes the parts of a Transition.
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
