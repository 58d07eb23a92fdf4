#pragma once

#include "core/for_each.hpp"
#include "orthornn/core/tensor.hpp"
#include "pointwise/sequences.hpp"

namespace orthornn {

/// Every row of rows [.., N] <- vector [N].
template <class T>
void copy_to_rows(TensorView<const T> vector, TensorView<T> rows) {
  const Index size = vector.size();
  for_each_entry(rows.device(), size, rows.size() / size,
                 pointwise::CopyToRows<T>{vector.data(), rows.data(), size});
}

}  // namespace orthornn
