#pragma once

#include "orthornn/linalg/matrix_view.hpp"
#include "src/orthogonal/reflection_order.hpp"

namespace orthornn::cuda {

/// As orthornn::reflect_tiles; the columns stay in registers through all reflections, in one kernel for N <=
/// 8192.
template <class T>
void reflect_tiles(MatrixView<const T> u, ReflectionOrder order, MatrixView<const T> x, MatrixView<T> out,
                   MatrixView<T> c);

}  // namespace orthornn::cuda
