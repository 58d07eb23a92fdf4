#pragma once

#include "linalg/eigen_map.hpp"

namespace orthornn {

/// The `count` numbers from `x` on <- sigma(x) = (1 + tanh(x / 2)) / 2, which has the same bits wherever a
/// vector of the processor begins.
template <class T>
void apply_sigmoid(T* x, Index count) {
  auto array = eigen(MatrixView<T>(x, count, 1, count)).array();
  array = T(0.5) * (T(0.5) * array).tanh() + T(0.5);
}

}  // namespace orthornn
