#pragma once

#include <cmath>

#include "cuda/core/kernel.cuh"
#include "orthornn/cells/activation.hpp"

namespace orthornn::cuda {

/// sigma(a), as in src/cells/rollout.cpp: a NaN stays one. All but tanh are relu(|a| + m) with a sign, m = 0
/// for all but modrelu, so that a persistent kernel chooses with selections where it would branch in every
/// step.
template <class T>
__device__ __forceinline__ T activate(Activation activation, T a, T modrelu_bias) {
  if (activation == Activation::tanh) return tanh(a);
  const T shifted = fabs(a) + modrelu_bias;
  const T magnitude = shifted < T{0} ? T{0} : shifted;
  const T h = activation == Activation::abs ? magnitude : copysign(magnitude, a);
  const bool is_zero = a == T{0} || (activation == Activation::relu && a < T{0});
  return is_zero ? T{0} : h;
}

/// sigma'(a) from h = sigma(a), and for abs from the sign of a.
template <class T>
__device__ __forceinline__ T differentiate(Activation activation, T h, std::int8_t sign, T g) {
  if (activation == Activation::tanh) return g * (T{1} - h * h);
  if (activation == Activation::abs) return g * static_cast<T>(sign);
  const bool is_zero = activation != Activation::identity && h == T{0};
  return is_zero ? T{0} : g;
}

template <class T>
__device__ __forceinline__ std::int8_t sign_of(T a) {
  return static_cast<std::int8_t>((a > T{0}) - (a < T{0}));
}

}  // namespace orthornn::cuda
