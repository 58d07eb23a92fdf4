#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// A product of reflections Q = H(v1) ... H(vL), applied one reflection after another (docs/math.md,
/// section 1.3; Mhammedi et al., ICML 2017). It is the function of Cwy with equal reflection vectors.
struct HouseholderProduct {
  static constexpr const char* name = "householder";  ///< Name in files and on the command line.
  static constexpr const char* title = "sequential Householder, tiled";  ///< Name in tables and plots.
  /// Number L of reflections, 1 to N; 0 stands for N.
  Index reflections = 0;
  /// How the reflection vectors are drawn.
  Init init = Init::henaff;
  /// Whether each reflection is applied to the whole batch before the next one. False: tiles of the batch
  /// stay in the first cache, or in registers of a GPU, through all reflections; threads share the batch, and
  /// on a GPU all reflections are one kernel. True: every reflection is one rank-one update of the whole
  /// batch, by one thread with Eigen or by one kernel on a GPU, as in the papers' comparisons.
  bool rank_one_updates = false;

  static void fields(auto&& visit) {
    reflections_field<HouseholderProduct>(visit);
    visit("rank_one_updates", &HouseholderProduct::rank_one_updates, domain::any,
          "each reflection over the whole batch");
    init_field<HouseholderProduct>(visit);
  }
  /// The parameter "reflection_vectors" [L, N]. Throws ValueError for a number L outside 0 to N.
  Parameter parameter(Index hidden_size) const;
  /// Makes the parts of a Transition.
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
