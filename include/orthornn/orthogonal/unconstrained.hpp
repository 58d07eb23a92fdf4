#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// A free matrix, with which orthogonal ones are compared. It is orthogonal at first, and training changes
/// that.
struct Unconstrained {
  static constexpr const char* name = "free";            ///< Name in files and on the command line.
  static constexpr const char* title = "unconstrained";  ///< Name in tables and plots.
  /// How the matrix is drawn.
  Init init = Init::henaff;

  static void fields(auto&& visit) { init_field<Unconstrained>(visit); }
  /// The parameter "matrix" [N, N].
  Parameter parameter(Index hidden_size) const;
  /// Makes the parts of a Transition.
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
