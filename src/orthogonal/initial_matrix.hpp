#pragma once

#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {

/// An orthogonal q [N, N] drawn by `init` (henaff, cayley or haar), with rank(I - q) <= rank and the given
/// determinant. Rotations fill the first `rank` coordinates in pairs; if the determinant or an odd rank
/// requires it, one coordinate changes its sign.
void initial_matrix(Init init, std::uint64_t seed, Index rank, int determinant, TensorView<double> q);

}  // namespace orthornn
