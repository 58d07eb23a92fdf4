#pragma once
// How parameters begin, on any device: a seed gives the same numbers on every one.

#include <algorithm>

#include "core/fill_on_host.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {

/// to <- numbers from N(0, deviation^2).
template <class T>
void draw_normal(TensorView<T> to, double deviation, RandomStream& random) {
  fill_on_host(to, [&](TensorView<T> values) {
    for (T& x : values) x = static_cast<T>(deviation * random.normal());
  });
}

/// to <- numbers from U(-bound, bound).
template <class T>
void draw_uniform(TensorView<T> to, double bound, RandomStream& random) {
  fill_on_host(to, [&](TensorView<T> values) {
    for (T& x : values) x = static_cast<T>(random.uniform(-bound, bound));
  });
}

/// to <- 1.
template <class T>
void set_one(TensorView<T> to) {
  fill_on_host(to, [](TensorView<T> values) { std::fill(values.begin(), values.end(), T{1}); });
}

/// A seed for one of several layers. Layers of one kind draw from the same streams of a seed, so each needs
/// its own. Drawn seeds differ at every depth of layers within layers; multiples of the place would not.
inline std::uint64_t draw_seed(RandomStream& random) {
  const std::uint64_t high = random.bits();
  return high << 32 | random.bits();
}

}  // namespace orthornn
