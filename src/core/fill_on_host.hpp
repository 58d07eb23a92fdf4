#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Calls fill(view) on host memory and copies the result to `to`, on any device.
template <class T, class Fill>
void fill_on_host(TensorView<T> to, const Fill& fill) {
  Tensor<T> host(to.shape());
  fill(host.view());
  copy<T>(host, to);
}

}  // namespace orthornn
