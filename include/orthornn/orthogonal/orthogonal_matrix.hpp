#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// The orthogonal matrix itself as the parameter (docs/math.md, section 3.4). A Riemannian optimizer, Rgd or
/// RgdAdam, keeps it orthogonal.
struct OrthogonalMatrix {
  static constexpr const char* name = "matrix";               ///< Name in files and on the command line.
  static constexpr const char* title = "Riemannian descent";  ///< Name in tables and plots.
  /// How the matrix is drawn; `normal` is as `haar`.
  Init init = Init::henaff;

  static void fields(auto&& visit) { init_field<OrthogonalMatrix>(visit); }
  /// The parameter "stiefel_matrix" [N, N], a point of St(N, N).
  Parameter parameter(Index hidden_size) const;
  /// Makes the parts of a Transition.
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
