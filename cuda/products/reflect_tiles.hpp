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

}  // namespace orthornn::cuda
