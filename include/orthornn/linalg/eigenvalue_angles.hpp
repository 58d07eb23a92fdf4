#pragma once

#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Angles in radians of the eigenvalues of a real matrix x [N, N] in the complex plane, in (-pi, pi] and
/// rising order; each as often as its eigenvalue. The angles of an orthogonal matrix say all of its
/// eigenvalues, which have the absolute value 1. The matrix must be in host memory. Computes in double, with
/// some 25 N^3 operations on one thread. Throws ShapeError unless x is square, and ValueError for numbers
/// that are not finite.
template <class T>
std::vector<double> eigenvalue_angles(TensorView<const T> x);

}  // namespace orthornn
