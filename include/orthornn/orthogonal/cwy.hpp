#pragma once

#include "orthornn/orthogonal/parametrization.hpp"
#include "orthornn/plan/reflection_form.hpp"

namespace orthornn {

/// Q = H(v1) ... H(vL) as I - U S^-1 U^T, the compact WY form (docs/math.md, section 1.1; Likhosherstov et
/// al., AISTATS 2021).
struct Cwy {
  static constexpr const char* name = "cwy";
  static constexpr const char* title = "CWY";
  /// L, 1 .. N; 0 stands for N.
  Index reflections = 0;
  Init init = Init::henaff;
  ReflectionForm form = ReflectionForm::automatic;

  static void fields(auto&& visit) {
    reflections_field<Cwy>(visit);
    visit("form", &Cwy::form, domain::any, "dense, factored, sequential, or automatic for the fastest");
    init_field<Cwy>(visit);
  }
  /// "reflection_vectors" [L, N].
  Parameter parameter(Index hidden_size) const;
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
