#pragma once

#include <variant>

#include "orthornn/orthogonal/cwy.hpp"
#include "orthornn/orthogonal/householder_product.hpp"
#include "orthornn/orthogonal/matrix_exponential.hpp"
#include "orthornn/orthogonal/own_transition.hpp"
#include "orthornn/orthogonal/scaled_cayley.hpp"
#include "orthornn/orthogonal/unconstrained.hpp"

namespace orthornn {

/// Every parametrization, those that a program registers included.
using TransitionOptions =
    std::variant<Cwy, HouseholderProduct, ScaledCayley, MatrixExponential, Unconstrained, OwnTransition>;

/// Makes a kind known by its name to model files, and to `names_of` and `parse` of TransitionOptions. It
/// holds for the whole program. Call it in `main`, before models are made or read by any thread; the same
/// kind again changes nothing. Throws ValueError for a name that another parametrization has.
void register_transition(const OwnTransition& defaults);
template <class Options>
void register_transition() {
  static_assert(!derives_from_alternative<Options>(std::type_identity<TransitionOptions>()),
                "an own kind does not derive from the options of a kind of orthornn");
  register_transition(OwnTransition(Options{}));
}

/// L of a product of reflections, 0 for N; nullptr for other parametrizations.
Index* reflections_of(TransitionOptions& options);
const Index* reflections_of(const TransitionOptions& options);

/// What a transition of hidden size N adds to a ParameterSet: "reflection_vectors" [L, N], "skew_parameters"
/// [N, N] or "matrix" [N, N], as in a model file, or what an own kind says. Throws ValueError for sizes
/// outside their range and for an own kind that is not registered.
Parameter parameter_of(const TransitionOptions& options, Index hidden_size);

}  // namespace orthornn
