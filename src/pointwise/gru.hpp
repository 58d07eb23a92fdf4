#pragma once

#include "pointwise/gated_step.hpp"

namespace orthornn::pointwise {

/// A GRU (docs/math.md, section 9.3). Its gates are r, z, n. The argument of n has r times the product, so
/// products are kept apart.
struct Gru {
  static constexpr Index gates = 3;
  static constexpr std::size_t states = 1;
  static constexpr bool separate_products = true;

  template <class V, class T>
  static constexpr void forward(const GatedStep<T>& s, Index i, Index b) {
    const Index size = s.size, at = b * size + i;
    T* gate = s.gates + gates * b * size + i;
    const T* product = s.products_of(gates, i, b);
    const V r = sigmoid(load<V>(gate) + load<V>(product)),
            z = sigmoid(load<V>(gate + size) + load<V>(product + size)), of_n = load<V>(product + 2 * size),
            n = tanh_of(load<V>(gate + 2 * size) + r * of_n);
    if (s.kept_products != nullptr) store(of_n, s.kept_products + at);
    store(r, gate);
    store(z, gate + size);
    store(n, gate + 2 * size);
    store(n + z * (load<V>(s.before[0] + at) - n), s.after[0] + at);
  }

  template <class V, class T>
  static constexpr void backward(const GatedStep<T>& s, Index i, Index b, bool, const V& d_h) {
    const Index size = s.size, at = b * size + i;
    T* gate = s.gates + gates * b * size + i;
    T* product = s.products_of(gates, i, b);
    T* of_n = s.kept_products != nullptr ? s.kept_products + at : product + 2 * size;
    const V r = load<V>(gate), z = load<V>(gate + size), n = load<V>(gate + 2 * size);
    const V d_n = d_h * (V(1) - z) * (V(1) - n * n);
    const V d_r = d_n * load<V>(of_n) * r * (V(1) - r);
    const V d_z = d_h * (load<V>(s.before[0] + at) - n) * z * (V(1) - z);
    store(d_r, gate);
    store(d_r, product);
    store(d_z, gate + size);
    store(d_z, product + size);
    store(d_n, gate + 2 * size);
    store(d_n * r, product + 2 * size);
    if (s.kept_products != nullptr) store(d_n * r, of_n);
    store(load<V>(s.d_h_before + at) + d_h * z, s.d_h_before + at);
  }
};

}  // namespace orthornn::pointwise
