#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// Q = exp(X - X^T), orthogonal up to rounding times |X| (EXPRNN, Lezcano-Casado and Martinez-Rubio, ICML
/// 2019).
struct MatrixExponential {
  static constexpr const char* name = "expm";
  static constexpr const char* title = "matrix exponential";
  Init init = Init::henaff;

  static void fields(auto&& visit) { init_field<MatrixExponential>(visit); }
  /// "skew_parameters" [N, N].
  Parameter parameter(Index hidden_size) const;
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
