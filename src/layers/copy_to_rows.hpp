#pragma once

#include <algorithm>

#include "core/back_end.hpp"
#include "cuda/layers/affine_map.hpp"

namespace orthornn {

/// Every row of rows [.., N] <- vector [N].
template <class T>
void copy_to_rows(TensorView<const T> vector, TensorView<T> rows) {
  if constexpr (has_cuda_bodies) {
    if (rows.device().is_cuda()) return cuda::fill_with_bias<T>(vector, rows);
  }
  for (T* row = rows.begin(); row != rows.end(); row += vector.size())
    std::copy(vector.begin(), vector.end(), row);
}

}  // namespace orthornn
