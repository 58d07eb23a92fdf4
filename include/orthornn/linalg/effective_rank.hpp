#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// exp of the entropy of the singular values of x [M, N], divided by their sum: how many dimensions x uses,
/// as a number from 1 to min(M, N), which equal singular values give (Roy and Vetterli, "The effective rank:
/// a measure of effective dimensionality", EUSIPCO 2007). 0 for a matrix of zeros. x is in host memory.
/// Throws ShapeError, and ValueError for numbers that are not finite.
template <class T>
double effective_rank(TensorView<const T> x);

}  // namespace orthornn
