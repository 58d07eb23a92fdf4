#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Swaps of two points that together send each point i to permutation[i], the first swap done first. Their
/// number is the number of points less the number of cycles. Throws ValueError for numbers that are no
/// permutation.
std::vector<std::array<Index, 2>> swaps_of(std::span<const std::int32_t> permutation);

/// Writes factors I - beta k k^T whose product moves row i of a state to row permutation[i]. A layer of
/// DeltaProduct with these factors tracks a permutation without having learned it (docs/math.md, section 8.1;
/// Siems et al., NeurIPS 2025, arXiv 2502.10297, theorem 1).
///
/// Keys [n, K], K the number of points, and betas [n] are in host memory. The first factor acts first;
/// factors that are not needed have beta = 0 and keys of zeros. A swap of i and j is k = e_i - e_j with beta
/// = 1, which is the factor of a key of norm 1 with beta = 2. Every number is 0, 1 or -1, so a state of small
/// whole numbers stays exact in any arithmetic; with keys of norm 1 the rounding of 1 / sqrt(2) would change
/// it. Throws ShapeError, and ValueError where n is below the number of swaps.
template <class T>
void permutation_factors(std::span<const std::int32_t> permutation, TensorView<T> keys, TensorView<T> betas);

/// Writes two reflections with beta = 2 whose product is the rotation of a plane by an angle, in radians.
/// Keys [n, 2] and betas [n] are as in `permutation_factors`; the line of the second reflection is half the
/// angle from the line of the first. Throws ShapeError, and ValueError where n is below 2.
template <class T>
void rotation_factors(double angle, TensorView<T> keys, TensorView<T> betas);

/// Writes the reflection of a plane on the line at an angle, in radians, with beta = 2. Keys [n, 2] and betas
/// [n] are as in `permutation_factors`. Throws ShapeError, and ValueError where n is below 1.
template <class T>
void reflection_factors(double angle, TensorView<T> keys, TensorView<T> betas);

/// Unit vectors k whose reflections I - 2 k k^T, the first one done first, together are an orthogonal matrix
/// A [K, K]. Their number is the rank of I - A, so at most K (Cartan and Dieudonne). A permutation gives its
/// swaps. Throws ShapeError, and ValueError for a matrix that is not orthogonal up to 1e-6.
std::vector<std::vector<double>> reflection_normals(TensorView<const double> matrix);

/// Writes reflections with beta = 2 whose product is an orthogonal matrix [K, K] (Siems et al., NeurIPS 2025,
/// arXiv 2502.10297, theorem 6). Keys [n, K] and betas [n] are as in `permutation_factors`. Throws as
/// `reflection_normals`, and ValueError where n is below their number; n = K is always enough, so one layer
/// with n = K factors reaches all of O(K).
template <class T>
void orthogonal_factors(TensorView<const double> matrix, TensorView<T> keys, TensorView<T> betas);

}  // namespace orthornn
