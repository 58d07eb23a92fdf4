#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// How a product of reflections is computed. All give the same function.
enum class ReflectionForm {
  /// The one that takes less time for a forward and a backward step (src/plan/plan.hpp).
  automatic,
  /// CWY: Q formed once, one N x N product a step.
  dense,
  /// CWY: U and S^-1 U^T kept, two N x L products a step.
  factored,
};
template <>
struct Names<ReflectionForm> {
  using enum ReflectionForm;
  static constexpr Choice<ReflectionForm> list[] = {
      {"automatic", automatic}, {"dense", dense}, {"factored", factored}};
};

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
    visit("form", &Cwy::form, domain::any, "dense, factored, or automatic for the cheaper one");
    init_field<Cwy>(visit);
  }
  /// "reflection_vectors" [L, N].
  Parameter parameter(Index hidden_size) const;
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
