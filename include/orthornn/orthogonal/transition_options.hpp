#pragma once

#include <variant>

#include "orthornn/orthogonal/cwy.hpp"
#include "orthornn/orthogonal/householder_product.hpp"
#include "orthornn/orthogonal/matrix_exponential.hpp"
#include "orthornn/orthogonal/scaled_cayley.hpp"
#include "orthornn/orthogonal/unconstrained.hpp"

namespace orthornn {

/// Options of any parametrization.
using TransitionOptions =
    std::variant<Cwy, HouseholderProduct, ScaledCayley, MatrixExponential, Unconstrained>;

/// Address of the number L of reflections, where 0 stands for N; nullptr for a parametrization without
/// reflections.
Index* reflections_of(TransitionOptions& options);
/// Address of the number L of reflections to read, where 0 stands for N; nullptr for a parametrization
/// without reflections.
const Index* reflections_of(const TransitionOptions& options);

/// The parameter of a transition of hidden size N: "reflection_vectors" [L, N], "skew_parameters" [N, N] or
/// "matrix" [N, N], as in a model file. Throws ValueError for sizes outside their range.
Parameter parameter_of(const TransitionOptions& options, Index hidden_size);

}  // namespace orthornn
