#pragma once

#include "orthornn/linalg/matrix_view.hpp"
#include "src/orthogonal/reflection_order.hpp"

namespace orthornn::cuda {

/// As orthornn::reflect_by_rank_one_updates, a kernel for each reflection. With `c`, L x n, what
/// orthornn::reflect_tiles leaves there.
template <class T>
void reflect_by_rank_one_updates(MatrixView<const T> u, ReflectionOrder order, MatrixView<const T> x,
                                 MatrixView<T> out, MatrixView<T> c = {});
/// As orthornn::gradient_by_rank_one_updates, two kernels for each reflection more.
template <class T>
void gradient_by_rank_one_updates(MatrixView<const T> u, MatrixView<const T> g, MatrixView<const T> x,
                                  MatrixView<T> d_u);

}  // namespace orthornn::cuda
