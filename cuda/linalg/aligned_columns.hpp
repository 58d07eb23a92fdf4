#pragma once

#include <algorithm>
#include <cstdint>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// Numbers from a column of a matrix to the next, at least one: cuBLAS requires that, also of a matrix
/// without rows.
template <class T>
std::int64_t stride_of(const MatrixView<T>& matrix) {
  return std::max<Index>({matrix.stride, matrix.rows, 1});
}

/// Whether every column begins at a multiple of 16 bytes.
template <class T>
bool has_aligned_columns(const MatrixView<T>& matrix) {
  constexpr Index grain = 16 / sizeof(T);
  return reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0 && stride_of(matrix) % grain == 0;
}

}  // namespace orthornn::cuda
