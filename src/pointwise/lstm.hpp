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
    const T* peepholes = s.peepholes_of(n, b);
    T* gate = s.gates + gates * b * size + n;
    V a_i = load<V>(gate), a_f = load<V>(gate + size), a_o = load<V>(gate + 3 * size);
    const V before = load<V>(s.before[1] + at);
    if (peepholes != nullptr) {
      a_i = a_i + load<V>(peepholes) * before;
      a_f = a_f + load<V>(peepholes + s.peepholes_of_gate) * before;
    }
    const V i = sigmoid(a_i), f = sigmoid(a_f), g = tanh_of(load<V>(gate + 2 * size));
    const V c = f * before + i * g;
    if (peepholes != nullptr) a_o = a_o + load<V>(peepholes + 2 * s.peepholes_of_gate) * c;
    const V o = sigmoid(a_o);
    store(i, gate);
    store(f, gate + size);
    store(g, gate + 2 * size);
    store(o, gate + 3 * size);
    store(c, s.after[1] + at);
    store(o * tanh_of(c), s.after[0] + at);
  }

  template <class V, class T>
  static constexpr void backward(const GatedStep<T>& s, Index n, Index b, bool is_last, const V& d_h) {
    const Index size = s.size, at = b * size + n;
    const T* peepholes = s.peepholes_of(n, b);
    T* gate = s.gates + gates * b * size + n;
    const V i = load<V>(gate), f = load<V>(gate + size), g = load<V>(gate + 2 * size),
            o = load<V>(gate + 3 * size), tanh_c = tanh_of(load<V>(s.after[1] + at));
    V d_c = load<V>(s.d_c + at);
    if (is_last && s.d_last[1] != nullptr) d_c = d_c + load<V>(s.d_last[1] + at);
    d_c = d_c + d_h * o * (V(1) - tanh_c * tanh_c);
    const V d_o = d_h * tanh_c * o * (V(1) - o);
    if (peepholes != nullptr) d_c = d_c + load<V>(peepholes + 2 * s.peepholes_of_gate) * d_o;
    const V d_i = d_c * g * i * (V(1) - i), d_f = d_c * load<V>(s.before[1] + at) * f * (V(1) - f);
    V d_before = d_c * f;
    if (peepholes != nullptr)
      d_before = d_before + load<V>(peepholes) * d_i + load<V>(peepholes + s.peepholes_of_gate) * d_f;
    store(d_i, gate);
    store(d_f, gate + size);
    store(d_c * i * (V(1) - g * g), gate + 2 * size);
    store(d_o, gate + 3 * size);
    store(d_before, s.d_c + at);
  }
};

/// Adds the gradients of the peepholes of a step, d [3, H W N], for frames of B sequences. Entry i is a unit
/// of a pixel. The gates are the gradients of their arguments.
template <class T>
struct AddPeepholeGradients {
  GatedStep<T> step;
  Index batch;  ///< B
  T* d;

  constexpr void operator()(Index i) const {
    const Index frame = step.peepholes_of_gate, n = i % step.size;
    T sums[3] = {d[i], d[frame + i], d[2 * frame + i]};
    for (Index at = i; at < batch * frame; at += frame) {
      const T* gate = step.gates + Lstm::gates * (at - n) + n;
      sums[0] += gate[0] * step.before[1][at];
      sums[1] += gate[step.size] * step.before[1][at];
      sums[2] += gate[3 * step.size] * step.after[1][at];
    }
    for (Index k = 0; k < 3; ++k) d[k * frame + i] = sums[k];
  }
};

}  // namespace orthornn::pointwise
