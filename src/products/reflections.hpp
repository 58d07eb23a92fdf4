#pragma once
// Reflections of columns, one after another, by the two sequential products.

#include "orthornn/linalg/matrix_view.hpp"
#include "orthornn/scalar/reflection_order.hpp"

namespace orthornn {

/// out += H(...)...H(...) x for unit reflectors u (N x L) applied one after another in the given order, and
/// c(i, j) = 2 u_i . (column j before reflection i). By the calling thread. Tiles of as many columns as a
/// vector register has lanes stay in the first-level cache through all L reflections, and each pass over a
/// tile updates it by one reflection and takes the dot product for the next.
template <class T>
void reflect_tiles(MatrixView<const std::type_identity_t<T>> u, ReflectionOrder order,
                   MatrixView<const std::type_identity_t<T>> x, MatrixView<T> out, MatrixView<T> c);

/// Whether tiles of columns with this many rows stay on chip through all reflections, as they always do on
/// the CPU.
template <class T>
bool tiles_stay_on_chip(Device device, Index rows);

/// out += H(...)...H(...) x for unit reflectors u (N x L) in the given order, each a rank-one update of all
/// columns of x at once: the product as the papers time it, in plain Eigen code, by the calling thread.
template <class T>
void reflect_by_rank_one_updates(MatrixView<const std::type_identity_t<T>> u, ReflectionOrder order,
                                 MatrixView<const std::type_identity_t<T>> x, MatrixView<T> out);

/// Overwrites d_u (N x L) by the gradient of the sum of <g_j, Q x_j> over all columns, by differentiating one
/// update after another: du_i = -2 sum (u_i . x_i) g_i + (u_i . g_i) x_i, where x_i is the input of
/// reflection i and g_i the gradient of its output. The x_i are recomputed from Q x, since a reflection is
/// its own inverse.
template <class T>
void gradient_by_rank_one_updates(MatrixView<const std::type_identity_t<T>> u,
                                  MatrixView<const std::type_identity_t<T>> g,
                                  MatrixView<const std::type_identity_t<T>> x, MatrixView<T> d_u);

}  // namespace orthornn
