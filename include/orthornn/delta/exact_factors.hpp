#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Swaps of two points, the first one done first, that together send each point i to permutation[i]: n less
/// the number of cycles, so at most n - 1. Throws ValueError for numbers that are no permutation.
std::vector<std::array<Index, 2>> swaps_of(std::span<const std::int32_t> permutation);

/// Factors I - beta k k^T that together are a known matrix: what the micro-steps of a token of a DeltaProduct
/// must be for a layer that tracks a group without having learned it (Siems et al., NeurIPS 2025, arXiv
/// 2502.10297, theorem 1 and theorem 6). The first micro-step is the first factor that acts. Micro-steps that
/// are not needed have beta = 0 and keys of zeros. Keys [n, K] and betas [n] are in host memory. All throw
/// ShapeError, and ValueError where n is too small.

/// The matrix that moves row i of a state to row permutation[i], K = points; n must be at least the number of
/// swaps. A swap is k = e_i - e_j with beta = 1: such keys have the norm sqrt(2), and the same factor has
/// beta = 2 for keys of norm 1. As it is, every number is 0, 1 or -1, so a state of small whole numbers is
/// exact in any arithmetic; the rounding of 1 / sqrt(2) would not be.
template <class T>
void permutation_factors(std::span<const std::int32_t> permutation, TensorView<T> keys, TensorView<T> betas);

/// The rotation of a plane by an angle, K = 2, as two reflections (n at least 2), beta = 2: the second one's
/// line is half the angle from the first one's.
template <class T>
void rotation_factors(double angle, TensorView<T> keys, TensorView<T> betas);

/// The reflection of a plane on the line at an angle, K = 2, beta = 2.
template <class T>
void reflection_factors(double angle, TensorView<T> keys, TensorView<T> betas);

/// Unit vectors k whose reflections I - 2 k k^T, the first one done first, together are an orthogonal matrix
/// [K, K]: as many as I - A has rank, so at most K (Cartan and Dieudonne). A permutation gives its swaps.
/// Throws ShapeError, and ValueError for a matrix that is not orthogonal up to 1e-6.
std::vector<std::vector<double>> reflection_normals(TensorView<const double> matrix);

/// An orthogonal matrix [K, K], beta = 2; n must be at least the number of `reflection_normals`, for which K
/// is enough. So one layer with n = K factors reaches all of O(K).
template <class T>
void orthogonal_factors(TensorView<const double> matrix, TensorView<T> keys, TensorView<T> betas);

}  // namespace orthornn
