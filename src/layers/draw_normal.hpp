#pragma once

#include "core/fill_on_host.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {

/// to <- numbers from N(0, deviation^2), on any device.
template <class T>
void draw_normal(TensorView<T> to, double deviation, RandomStream& random) {
  fill_on_host(to, [&](TensorView<T> values) {
    for (T& x : values) x = static_cast<T>(deviation * random.normal());
  });
}

}  // namespace orthornn
