#pragma once
// The formulas of the activations, for all devices. They are constexpr, so that kernels can call them.

#include <cmath>
#include <cstdint>

namespace orthornn {

/// The function sigma of a recurrence h_t = sigma(a_t).
enum class Activation {
  tanh,     ///< sigma(a) = tanh(a).
  relu,     ///< sigma(a) = max(a, 0).
  abs,      ///< sigma(a) = |a|.
  modrelu,  ///< sigma(a) = sign(a) relu(|a| + m), m [N] learned (Arjovsky, Shah and Bengio, ICML 2016).
  identity  ///< sigma(a) = a.
};

/// Computes sigma(a). A NaN stays a NaN. `modrelu_bias` is m, and 0 for all activations but modrelu.
// All but tanh are relu(|a| + m) with a sign: a persistent kernel then selects where it would branch in every
// step.
template <class T>
constexpr T activate(Activation activation, T a, T modrelu_bias) {
  if (activation == Activation::tanh) return std::tanh(a);
  const T shifted = std::fabs(a) + modrelu_bias;
  const T magnitude = shifted < T{0} ? T{0} : shifted;
  const T h = activation == Activation::abs ? magnitude : std::copysign(magnitude, a);
  const bool is_zero = a == T{0} || (activation == Activation::relu && a < T{0});
  return is_zero ? T{0} : h;
}

/// Computes sigma'(a) g from h = sigma(a); for abs from `sign`, the sign of a.
template <class T>
constexpr T differentiate(Activation activation, T h, std::int8_t sign, T g) {
  if (activation == Activation::tanh) return g * (T{1} - h * h);
  if (activation == Activation::abs) return g * static_cast<T>(sign);
  const bool is_zero = activation != Activation::identity && h == T{0};
  return is_zero ? T{0} : g;
}

/// Sign of a number: -1, 0 or 1.
template <class T>
constexpr std::int8_t sign_of(T a) {
  return static_cast<std::int8_t>((a > T{0}) - (a < T{0}));
}

}  // namespace orthornn
