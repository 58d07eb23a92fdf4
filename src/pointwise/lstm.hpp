#pragma once

#include "pointwise/gated_step.hpp"

namespace orthornn::pointwise {

/// An LSTM (docs/math.md, section 9.2). Its gates are i, f, g, o.
struct Lstm {
  static constexpr Index gates = 4;
  static constexpr std::size_t states = 2;
  static constexpr bool separate_products = false;

  template <class V, class T>
  static constexpr void forward(const GatedStep<T>& s, Index n, Index b) {
    const Index size = s.size, at = b * size + n;
    T* gate = s.gates + gates * b * size + n;
    const V i = sigmoid(load<V>(gate)), f = sigmoid(load<V>(gate + size)),
            g = tanh_of(load<V>(gate + 2 * size)), o = sigmoid(load<V>(gate + 3 * size));
    store(i, gate);
    store(f, gate + size);
    store(g, gate + 2 * size);
    store(o, gate + 3 * size);
    const V c = f * load<V>(s.before[1] + at) + i * g;
    store(c, s.after[1] + at);
    store(o * tanh_of(c), s.after[0] + at);
  }

  template <class V, class T>
  static constexpr void backward(const GatedStep<T>& s, Index n, Index b, bool is_last, const V& d_h) {
    const Index size = s.size, at = b * size + n;
    T* gate = s.gates + gates * b * size + n;
    const V i = load<V>(gate), f = load<V>(gate + size), g = load<V>(gate + 2 * size),
            o = load<V>(gate + 3 * size), tanh_c = tanh_of(load<V>(s.after[1] + at));
    V d_c = load<V>(s.d_c + at);
    if (is_last && s.d_last[1] != nullptr) d_c = d_c + load<V>(s.d_last[1] + at);
    d_c = d_c + d_h * o * (V(1) - tanh_c * tanh_c);
    store(d_c * g * i * (V(1) - i), gate);
    store(d_c * load<V>(s.before[1] + at) * f * (V(1) - f), gate + size);
    store(d_c * i * (V(1) - g * g), gate + 2 * size);
    store(d_h * tanh_c * o * (V(1) - o), gate + 3 * size);
    store(d_c * f, s.d_c + at);
  }
};

}  // namespace orthornn::pointwise
