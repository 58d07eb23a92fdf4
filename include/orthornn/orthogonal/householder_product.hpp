#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// The product of reflections of Cwy, one reflection after another (Mhammedi et al., ICML 2017).
struct HouseholderProduct {
  static constexpr const char* name = "householder";
  static constexpr const char* title = "sequential Householder, tiled";
  /// L, 1 .. N; 0 stands for N.
  Index reflections = 0;
  Init init = Init::henaff;
  /// False: tiles of the batch stay in the first cache through all reflections, threads share the batch; on a
  /// GPU they stay in registers, and all reflections are one kernel.
  /// True: every reflection is one rank-one update of the whole batch by plain Eigen, which has one thread
  /// for that, or one kernel on a GPU: the opponent that the papers time.
  bool rank_one_updates = false;

  static void fields(auto&& visit) {
    reflections_field<HouseholderProduct>(visit);
    visit("rank_one_updates", &HouseholderProduct::rank_one_updates, domain::any,
          "each reflection over the whole batch");
    init_field<HouseholderProduct>(visit);
  }
  /// "reflection_vectors" [L, N].
  Parameter parameter(Index hidden_size) const;
  template <class T>
  TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
};

}  // namespace orthornn
