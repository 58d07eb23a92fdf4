#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// Reports Fault::dependent_columns unless the eigenvalues of V^T V, in rising order, are those of linearly
/// independent columns.
void check_independent(TensorView<const double> eigenvalues);

}  // namespace orthornn::cuda
