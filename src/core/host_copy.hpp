#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// A copy in host memory of a view on any device. Waits for a GPU.
template <class T>
Tensor<T> host_copy(TensorView<const T> view) {
  Tensor<T> copied;
  copied.reserve(view.shape());
  copy<T>(view, copied.view());
  return copied;
}

}  // namespace orthornn
