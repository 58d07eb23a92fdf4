#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// How a product of reflections in compact WY form is applied. All forms compute one function.
enum class ReflectionForm {
  /// The form that takes less time for a forward and a backward step (src/plan/plan.hpp).
  automatic,
  /// Q is formed once, and a step is one N x N product (docs/math.md, section 1.5).
  dense,
  /// U and S^-1 U^T are kept, and a step is two N x L products (docs/math.md, section 1.4).
  factored,
};
template <>
struct Names<ReflectionForm> {
  using enum ReflectionForm;
  static constexpr Choice<ReflectionForm> list[] = {
      {"automatic", automatic}, {"dense", dense}, {"factored", factored}};
};

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
    visit("form", &Cwy::form, domain::any, "dense, factored, or automatic for the cheaper one");
    init_field<Cwy>(visit);
  }
  /// The parameter "reflection_vectors" [L, N]. Throws ValueError for a number L outside 0 to N.
  Parameter parameter(Index hidden_size) const;
  /// Makes the parts of a Transition; TransitionParts is known to the library's sources alone.
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
