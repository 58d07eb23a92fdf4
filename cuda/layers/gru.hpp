#pragma once

#include <cstdint>

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// One step t of a GRU for B sequences: device memory, [B, ..] in C order; null for what is not there.
template <class T>
struct GruStep {
  Device device;
  Index length;  ///< T
  Index step;    ///< t, from 0
  Index batch;
  Index hidden_size;            ///< N
  const std::int32_t* lengths;  ///< [B] or null
  T* gates;           ///< [B, 3N]; forward: W x + b -> r, z, n; backward: r, z, n -> gradients of W x + b
  T* products;        ///< [B, 3N], R h_{t-1} + b'; backward: -> their gradients
  const T* h_before;  ///< h_{t-1} [B, N]
  T* h;               ///< h_t [B, N], forward
  T* h_last;          ///< [B, N] or null, forward: written at the last live step
  const T* d_h;       ///< [B, N], backward: gradient that arrives at h_t
  const T* d_h_last;  ///< [B, N] or null, backward
  T* d_h_before;      ///< [B, N], backward: what reaches h_{t-1} past the product is added
};

template <class T>
void gru_forward_step(const GruStep<T>& step);
template <class T>
void gru_backward_step(const GruStep<T>& step);

}  // namespace orthornn::cuda
