#pragma once

#include <cmath>

#include "cuda/core/kernel.cuh"
#include "orthornn/cells/activation.hpp"

namespace orthornn::cuda {

/// sigma(a), as in src/cells/rollout.cpp: a NaN stays one.
template <class T>
__device__ __forceinline__ T activate(Activation activation, T a, T modrelu_bias) {
  switch (activation) {
    case Activation::tanh:
      return tanh(a);
    case Activation::relu:
      return a < T{0} ? T{0} : a;
    case Activation::abs:
      return fabs(a);
    case Activation::modrelu: {
      const T magnitude = fabs(a) + modrelu_bias;
      return a == T{0} ? T{0} : copysign(magnitude < T{0} ? T{0} : magnitude, a);
    }
    case Activation::identity:
      break;
  }
  return a;
}

/// sigma'(a) from h = sigma(a), or for abs from the sign of a.
template <class T>
__device__ __forceinline__ T differentiate(Activation activation, T h, T sign, T g) {
  switch (activation) {
    case Activation::tanh:
      return g * (T{1} - h * h);
    case Activation::relu:
      return h > T{0} ? g : T{0};
    case Activation::abs:
      return g * sign;
    case Activation::modrelu:
      return h != T{0} ? g : T{0};
    case Activation::identity:
      break;
  }
  return g;
}

template <class T>
__device__ __forceinline__ std::int8_t sign_of(T a) {
  return static_cast<std::int8_t>((a > T{0}) - (a < T{0}));
}

}  // namespace orthornn::cuda
