#pragma once

#include "orthornn/orthogonal/parametrization.hpp"
#include "orthornn/products/reflection_form.hpp"

namespace orthornn {

/// A product of reflections Q = H(v1) ... H(vL) in compact WY form, Q = I - U S^-1 U^T (docs/math.md,
/// section 1.1; Likhosherstov et al., AISTATS 2021).
struct Cwy {
  static constexpr const char* name = "cwy";   ///< Name in files and on the command line.
  static constexpr const char* title = "CWY";  ///< Name in tables and plots.
  /// Number L of reflections, 1 to N; 0 stands for N.
  Index reflections = 0;
  /// How the reflection vectors are drawn.
  Init init = Init::henaff;
  /// How the product is applied.
  ReflectionForm form = ReflectionForm::automatic;

  static void fields(auto&& visit) {
    reflections_field<Cwy>(visit);
    visit("form", &Cwy::form, domain::any, "dense, factored, sequential, or automatic for the fastest");
    init_field<Cwy>(visit);
  }
  /// The parameter "reflection_vectors" [L, N]. Throws ValueError for a number L outside 0 to N.
  Parameter parameter(Index hidden_size) const;
  /// Makes the parts of a Transition.
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
