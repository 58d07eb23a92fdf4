#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// Replaces an upper triangular matrix, of which all entries on the diagonal are `diagonal`, by its inverse,
/// computed in double, with zeros below the diagonal. Neither the diagonal nor what lies below it is read.
///
/// Blocks of 64 x 64 on the diagonal are inverted in shared memory, all at once, then pairs of neighbours are
/// merged, [A B; 0 D]^-1 = [A^-1, -A^-1 B D^-1; 0, D^-1], by two products a level for all pairs together, on
/// a workspace padded to 64 * 2^k. A triangular solve or inverse of cuBLAS or cuSOLVER would go through
/// panels one after another, each a few small launches: at L = 1024 there are 10 launches here, and nothing
/// that a CUDA graph cannot record. Where L <= 64, there is one.
template <class T>
void invert_upper_triangular(MatrixView<T> a, double diagonal);

}  // namespace orthornn::cuda
