#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// Whether a product on the CPU is thin: its result has few rows, and its other sizes are large. The kernel
/// of large products keeps vectors along the rows of the result, and would leave most of each vector empty.
bool is_thin_product(Index rows, Index cols, Index depth);

/// Threads take columns of a thin product in multiples of this, so that no bit depends on their number.
inline constexpr Index thin_column_group = 64;

/// c += alpha a b for a thin product, where c is the columns `col`, col + 1, .. of the result. By the calling
/// thread. It reads b without packing it.
template <class T>
void thin_multiply_add(T alpha, const Operand<T>& a, const Operand<T>& b, MatrixView<T> c, Index col);

}  // namespace orthornn
