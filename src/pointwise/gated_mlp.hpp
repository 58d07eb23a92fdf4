#pragma once

#include "pointwise/numbers.hpp"

namespace orthornn::pointwise {

/// inner [.., M] <- SiLU(a) c for rows [a; c] of [.., 2 M].
template <class T>
struct SiluGate {
  const T* rows;
  T* inner;
  Index size;  ///< M

  template <class V>
  constexpr void run(Index i, Index row) const {
    const T* at = rows + 2 * row * size + i;
    const V a = load<V>(at);
    store(a * sigmoid(a) * load<V>(at + size), inner + row * size + i);
  }
  constexpr void operator()(Index i, Index row) const { run<T>(i, row); }
};

/// d_rows [.., 2 M] <- its gradient from d_inner [.., M].
template <class T>
struct SiluGateBackward {
  const T* rows;
  const T* d_inner;
  T* d_rows;
  Index size;  ///< M

  template <class V>
  constexpr void run(Index i, Index row) const {
    const Index at = 2 * row * size + i;
    const V a = load<V>(rows + at), sigma = sigmoid(a), d = load<V>(d_inner + row * size + i);
    store(d * load<V>(rows + at + size) * sigma * (V(1) + a * (V(1) - sigma)), d_rows + at);
    store(d * a * sigma, d_rows + at + size);
  }
  constexpr void operator()(Index i, Index row) const { run<T>(i, row); }
};

}  // namespace orthornn::pointwise
