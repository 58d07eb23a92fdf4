#pragma once

#include <cstdint>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// As orthornn::invert_general, by cuSOLVER; `pivots` lie on the device.
template <class T>
void invert_general(MatrixView<T> a, MatrixView<T> inverse, std::int64_t* pivots);

/// Replaces an upper triangular matrix, of which all entries on the diagonal are `diagonal`, by its inverse,
/// computed in double, with zeros below the diagonal. Neither the diagonal nor the entries below it are read.
///
/// Blocks of 64 x 64 on the diagonal are inverted in shared memory, all at once, then pairs of neighbours are
/// merged, [A B; 0 D]^-1 = [A^-1, -A^-1 B D^-1; 0, D^-1], by two products a level for all pairs together, on
/// a workspace padded to 64 * 2^k. A CUDA graph can capture all of it. At L = 1024 it takes 10 launches, for
/// L <= 64 one. A triangular solve or inverse of cuBLAS or cuSOLVER processes panels one after another, each
/// by a few small launches.
template <class T>
void invert_upper_triangular(MatrixView<T> a, double diagonal);

}  // namespace orthornn::cuda
