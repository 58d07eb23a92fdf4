#pragma once

#include <cstdint>

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

/// One step t of an LSTM for B sequences: device memory, [B, ..] in C order; null for what is not there.
template <class T>
struct LstmStep {
  Device device;
  Index length;  ///< T
  Index step;    ///< t, from 0
  Index batch;
  Index hidden_size;            ///< N
  const std::int32_t* lengths;  ///< [B] or null
  T* gates;           ///< [B, 4N]; forward: arguments -> i, f, g, o; backward: i, f, g, o -> gradients
  const T* c_before;  ///< c_{t-1} [B, N]
  T* c;               ///< c_t [B, N], written by forward
  T* h;               ///< h_t [B, N], forward
  T* h_last;          ///< [B, N] or null, forward: written at the last live step
  T* c_last;          ///< likewise
  const T* d_h;       ///< [B, N], backward: gradient that arrives at h_t
  const T* d_h_last;  ///< [B, N] or null, backward
  const T* d_c_last;  ///< likewise
  T* d_c;             ///< [B, N], backward: gradient of c_t -> of c_{t-1}
};

template <class T>
void lstm_forward_step(const LstmStep<T>& step);
/// What arrives at the last states is added at the last live step.
template <class T>
void lstm_backward_step(const LstmStep<T>& step);

}  // namespace orthornn::cuda
