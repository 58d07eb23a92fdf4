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
  const std::int32_t* lengths = nullptr;  ///< [B] or null
  const T* modrelu_bias = nullptr;        ///< [N], for modrelu
  std::int8_t* signs = nullptr;           ///< [T, B, N], for abs
  const T* h_0 = nullptr;                 ///< [B, N], forward
  const T* inputs = nullptr;              ///< [T, B, N], forward; may be outputs
  T* outputs = nullptr;                   ///< [T, B, N]; written forward, read backward
  T* h_last = nullptr;                    ///< [B, N], forward
  const T* d_h_last = nullptr;            ///< [B, N] or null, backward
  const T* d_outputs = nullptr;           ///< [T, B, N] or null for 0, backward; may be d_inputs
  T* d_inputs = nullptr;                  ///< [T, B, N], backward
  T* d_h_0 = nullptr;                     ///< [B, N], backward
};

/// Which way through time: it decides between Q and its transpose as well.
enum class Direction { forward, backward };

}  // namespace orthornn::cuda
