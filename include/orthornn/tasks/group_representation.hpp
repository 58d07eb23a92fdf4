#pragma once

#include <span>

#include "orthornn/core/tensor.hpp"
#include "orthornn/tasks/finite_group.hpp"

namespace orthornn {

/// Largest number of places of a cyclic or dihedral group that `orthogonal_representation` takes. With more,
/// the angle between two rotations is so small that errors of fp32 may add up to half of it within 100,000
/// steps.
inline constexpr Index most_places = 50;

/// Computes a different orthogonal matrix for each element of a group, [order, d, d], with A(a o b) =
/// A(a) A(b). Products of groups have blocks on the diagonal:
///
///     S<n>, A<n>   permutation matrices                      n - 1 reflections at most
///     S4           rotations of a cube                       2
///     A5           rotations of an icosahedron               2
///     Z2           -1                                        1
///     Z<n>, D<n>   rotations and reflections of a plane      2
///
/// S4 and A5 have two rows; the row in which the `elements` need fewer reflections is taken
/// (orthornn/delta/exact_factors.hpp). Throws ValueError for `Z<n>` and `D<n>` with n > most_places.
Tensor<double> orthogonal_representation(const FiniteGroup& group, std::span<const Index> elements);

}  // namespace orthornn
