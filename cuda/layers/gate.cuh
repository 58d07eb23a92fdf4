#pragma once

#include <cmath>

#include "cuda/core/kernel.cuh"

namespace orthornn::cuda {

/// 1 / (1 + exp(-a)).
template <class T>
__device__ __forceinline__ T sigmoid(T a) {
  return T{1} / (T{1} + exp(-a));
}

/// Live steps of sequence b.
__device__ __forceinline__ Index live_steps(const std::int32_t* lengths, Index length, Index b) {
  return lengths == nullptr ? length : static_cast<Index>(lengths[b]);
}

}  // namespace orthornn::cuda
