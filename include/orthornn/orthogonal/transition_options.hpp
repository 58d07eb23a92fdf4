#pragma once

#include <variant>

#include "orthornn/orthogonal/cwy.hpp"
#include "orthornn/orthogonal/householder_product.hpp"
#include "orthornn/orthogonal/matrix_exponential.hpp"
#include "orthornn/orthogonal/orthogonal_matrix.hpp"
#include "orthornn/orthogonal/own_transition.hpp"
#include "orthornn/orthogonal/scaled_cayley.hpp"
#include "orthornn/orthogonal/unconstrained.hpp"
#include "orthornn/orthogonal/weight_normalization.hpp"

namespace orthornn {

/// Options of any parametrization, registered kinds of a program included.
using TransitionOptions = std::variant<Cwy, HouseholderProduct, ScaledCayley, MatrixExponential,
                                       WeightNormalization, OrthogonalMatrix, Unconstrained, OwnTransition>;

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

/// Address of the number L of reflections, where 0 stands for N; nullptr for a parametrization without
/// reflections.
Index* reflections_of(TransitionOptions& options);
/// Address of the number L of reflections to read, where 0 stands for N; nullptr for a parametrization
/// without reflections.
const Index* reflections_of(const TransitionOptions& options);

/// The parameter of a transition of hidden size N: "reflection_vectors" [L, N], "skew_parameters" [N, N] or
/// "matrix" [N, N], as in a model file, or the parameter of an own kind. Throws ValueError for sizes outside
/// their range and for an own kind that is not registered.
Parameter parameter_of(const TransitionOptions& options, Index hidden_size);

}  // namespace orthornn
