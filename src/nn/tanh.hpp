#pragma once

#include "core/for_each.hpp"
#include "orthornn/core/tensor.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn {

/// x <- tanh(x)
template <class T>
void apply_tanh(TensorView<T> x) {
  for_each(x.device(), x.size(), pointwise::Tanh<T>{x.data()});
}

/// d <- (1 - y^2) d: the backward from y = tanh(x).
template <class T>
void apply_tanh_backward(TensorView<const T> y, TensorView<T> d) {
  for_each(d.device(), d.size(), pointwise::TanhBackward<T>{y.data(), d.data()});
}

}  // namespace orthornn
