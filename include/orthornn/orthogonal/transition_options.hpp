#pragma once

#include <variant>

#include "orthornn/orthogonal/cwy.hpp"
#include "orthornn/orthogonal/householder_product.hpp"
#include "orthornn/orthogonal/matrix_exponential.hpp"
#include "orthornn/orthogonal/scaled_cayley.hpp"
#include "orthornn/orthogonal/unconstrained.hpp"

namespace orthornn {

/// Every parametrization.
using TransitionOptions =
    std::variant<Cwy, HouseholderProduct, ScaledCayley, MatrixExponential, Unconstrained>;

/// L of a product of reflections, 0 for N; nullptr for other parametrizations.
Index* reflections_of(TransitionOptions& options);
const Index* reflections_of(const TransitionOptions& options);

/// What a transition of hidden size N adds to a ParameterSet: "reflection_vectors" [L, N], "skew_parameters"
/// [N, N] or "matrix" [N, N], as in a model file. Throws ValueError for sizes outside their range.
Parameter parameter_of(const TransitionOptions& options, Index hidden_size);

}  // namespace orthornn
