#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// fill(view) on host memory that is copied to `to`, wherever that lies.
template <class T, class Fill>
void fill_on_host(TensorView<T> to, const Fill& fill) {
  Tensor<T> host(to.shape());
  fill(host.view());
  copy<T>(host, to);
}

}  // namespace orthornn
