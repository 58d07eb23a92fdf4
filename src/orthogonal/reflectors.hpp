#pragma once
// The common part of CWY, T-CWY and the sequential product: unit reflectors, the S factor and their backward.

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// u_i = v_i / |v_i| for v [L, N]; norms [L]. Throws ValueError naming the first vector that is zero or not
/// finite; on a GPU, at the next synchronization.
template <class T>
void normalize_reflectors(ConstTensorView<T> v, TensorView<T> u, TensorView<T> norms);

/// Makes S = I/2 + striu(U^T U) [L, L] of U [N, L] as `times_s_inverse` (linalg/s_factor.hpp) takes it.
template <class T>
void make_s_factor(MatrixView<const std::type_identity_t<T>> u, MatrixView<T> s);

/// The last step of every backward: dv_i = (du_i - u_i (u_i . du_i)) / |v_i|, all [L, N]. du and dv may be
/// one.
template <class T>
void backward_of_normalize(ConstTensorView<T> u, ConstTensorView<T> norms, ConstTensorView<T> du,
                           TensorView<T> dv);

/// L reflection vectors [L, N] whose product is q [N, N]: columns are mapped to unit vectors one after
/// another, the farthest first, by rank(I - q) reflections. Pairs of equal reflections make up the rest.
/// Throws ValueError when no L reflections give q: L below rank(I - q), or a determinant other than (-1)^L.
template <class T>
void reflection_vectors_of(ConstTensorView<T> q, TensorView<T> v);

/// M reflection vectors [M, N] of whose product omega [N, M] is the first M columns: vector i maps column i
/// of what is left to e_i, and is 0 before coordinate i. Throws ValueError for columns that are not
/// orthonormal and for a square omega with a determinant other than (-1)^N.
template <class T>
void reflection_vectors_of_columns(ConstTensorView<T> omega, TensorView<T> v);

/// v_i = x - |x| e_i with x normal over coordinates i .. N: Haar-distributed columns (Stewart 1980).
template <class T>
void haar_reflection_vectors(std::uint64_t seed, TensorView<T> v);

}  // namespace orthornn
