#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Effective rank of a matrix x [M, N]: exp(-sum p_i ln p_i) with the singular values divided by their sum as
/// p_i (Roy and Vetterli, "The effective rank: a measure of effective dimensionality", EUSIPCO 2007). It is a
/// number from 1 to min(M, N), reached where all singular values are equal, and 0 for a matrix of zeros. The
/// matrix must be in host memory. Throws ShapeError unless x has two dimensions, and ValueError for numbers
/// that are not finite.
template <class T>
double effective_rank(TensorView<const T> x);

}  // namespace orthornn
