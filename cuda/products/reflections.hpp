#pragma once

#include "orthornn/linalg/matrix_view.hpp"
#include "orthornn/scalar/reflection_order.hpp"

namespace orthornn::cuda {

/// Whether columns of this many rows can stay in registers through all reflections: N <= 8192, half of that
/// on GPUs with little shared memory.
template <class T>
bool reflects_in_registers(Device device, Index rows);

/// As orthornn::reflect_tiles: one kernel if columns stay in registers, else one kernel for each reflection.
template <class T>
void reflect_tiles(MatrixView<const T> u, ReflectionOrder order, MatrixView<const T> x, MatrixView<T> out,
                   MatrixView<T> c);

/// As orthornn::reflect_by_rank_one_updates, by one kernel for each reflection. `c`, L x n, gets the
/// coefficients of orthornn::reflect_tiles, unless it is empty.
template <class T>
void reflect_by_rank_one_updates(MatrixView<const T> u, ReflectionOrder order, MatrixView<const T> x,
                                 MatrixView<T> out, MatrixView<T> c = {});
/// As orthornn::gradient_by_rank_one_updates, by two more kernels for each reflection.
template <class T>
void gradient_by_rank_one_updates(MatrixView<const T> u, MatrixView<const T> g, MatrixView<const T> x,
                                  MatrixView<T> d_u);

}  // namespace orthornn::cuda
