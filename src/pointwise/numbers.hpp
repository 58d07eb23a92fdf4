#pragma once
// Functions of a body's numbers. A body is a struct whose operator() computes one entry. It is constexpr, so
// that kernels can call it. A body with `run<V>` may compute several neighbouring entries at once: V is the
// scalar type T, or on the CPU Lanes (linalg/lanes.hpp), which has these functions too.

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "orthornn/core/shape.hpp"

namespace orthornn::pointwise {

template <class V, class T>
constexpr V load(const T* from) {
  if constexpr (std::is_same_v<V, T>)
    return *from;
  else
    return V::load(from);
}

template <class V, class T>
constexpr void store(const V& x, T* to) {
  if constexpr (std::is_same_v<V, T>)
    *to = x;
  else
    x.store(to);
}

/// 1 / (1 + exp(-a)).
template <std::floating_point T>
constexpr T sigmoid(T a) {
  return T{1} / (T{1} + std::exp(-a));
}

template <std::floating_point T>
constexpr T tanh_of(T a) {
  return std::tanh(a);
}

/// Live steps of sequence b among `length`: all of them where `lengths` is null.
constexpr Index live_steps(const std::int32_t* lengths, Index length, Index b) {
  return lengths == nullptr ? length : static_cast<Index>(lengths[b]);
}

}  // namespace orthornn::pointwise
