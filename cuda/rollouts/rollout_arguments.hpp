#pragma once

#include <cstdint>

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"
#include "orthornn/scalar/activation.hpp"

namespace orthornn::cuda {

/// What every rollout on a GPU reads and writes, forward and backward
/// (include/orthornn/rollouts/rollout.hpp): device memory in C order; null for what is not there.
template <class T>
struct RolloutArguments {
  Device device;
  Index length;       ///< T
  Index batch;        ///< B
  Index hidden_size;  ///< N
  Activation activation;
  const std::int32_t* lengths;  ///< [B] or null
  const T* modrelu_bias;        ///< [N], for modrelu
  std::int8_t* signs;           ///< [T, B, N], for abs
  T* states;                    ///< [T + 1, B, N]
  T* h_last;                    ///< [B, N], forward
  const T* d_h_last;            ///< [B, N] or null, backward
  T* d_states;                  ///< [T, B, N], backward
  T* d_h0;                      ///< [B, N], backward
};

/// Which way through time: it decides between Q and its transpose as well.
enum class Direction { forward, backward };

}  // namespace orthornn::cuda
