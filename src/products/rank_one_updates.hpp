#pragma once

#include "products/reflect_tiles.hpp"

namespace orthornn {

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
