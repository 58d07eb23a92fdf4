#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// Any matrix: the baseline. It starts orthogonal and does not stay so.
struct Unconstrained {
  static constexpr const char* name = "free";
  static constexpr const char* title = "unconstrained";
  Init init = Init::henaff;

  static void fields(auto&& visit) { init_field<Unconstrained>(visit); }
  /// "matrix" [N, N].
  Parameter parameter(Index hidden_size) const;
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
