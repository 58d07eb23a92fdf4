#pragma once
// What the options of all parametrizations share. Each is a struct of plain values in a header of its own. It
// has a `name` in files and on the command line, a `title` in tables and plots, `fields` (core/fields.hpp),
// and two functions that its source defines:
//
//   Parameter parameter(Index hidden_size) const;  // throws ValueError for sizes outside their range
//   template <class T>
//   TransitionParts<T> parts(Index hidden_size, const Execution& execution) const;
//
// Its line in `TransitionOptions` makes it known everywhere else.

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/parameters.hpp"

namespace orthornn {

/// The two objects that a Transition joins. Its definition is in src/orthogonal/parametrization.hpp.
template <class T>
struct TransitionParts;

/// How the parameters of a transition are drawn before training (docs/math.md, section 4.1).
enum class Init {
  /// Rotations of pairs of coordinates by angles uniform in [-pi, pi) (Henaff, Szlam and LeCun, ICML 2016).
  henaff,
  /// Rotations of pairs of coordinates by angles uniform in [0, pi / 2), which are slow (Helfrich, Willmott
  /// and Ye, ICML 2018).
  cayley,
  /// A matrix uniform over the orthogonal matrices whose determinant the parametrization has. With L < N
  /// reflections the first L columns are uniform over St(N, L) (Stewart 1980).
  haar,
  /// Standard normal reflection vectors; for Cayley and the exponential, a normal X with variance 1 / N; for
  /// the free matrix, as `haar`.
  normal,
};
template <>
struct Names<Init> {
  using enum Init;
  static constexpr Choice<Init> list[] = {
      {"henaff", henaff}, {"cayley", cayley}, {"haar", haar}, {"normal", normal}};
};

/// Visits the field "init", which all parametrizations have.
template <class Options>
void init_field(auto&& visit) {
  visit("init", &Options::init, domain::any, "Initial transition: henaff, cayley, haar or normal");
}
/// Visits the field "reflections", which products of reflections have.
template <class Options>
void reflections_field(auto&& visit) {
  visit("reflections", &Options::reflections, domain::not_negative, "reflections L, 1 to N; 0 for N");
}

}  // namespace orthornn
