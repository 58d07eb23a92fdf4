#pragma once

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

}  // namespace orthornn
