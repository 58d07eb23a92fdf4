#pragma once

#include <cstdint>

#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/orthogonal/transition.hpp"
#include "orthornn/rollouts/activation.hpp"

namespace orthornn {

/// Memory of a rollout besides the states, for the forward and the backward.
template <class T>
struct RolloutMemory {
  /// Coefficients z of docs/math.md, section 1.4, [T, B, L]; empty for dense transitions. The forward writes
  /// them for the backward.
  TensorView<T> z;
  /// Signs of a_t, [T, B, N], for abs alone: every other derivative follows from h_t. The forward writes them
  /// for the backward.
  TensorView<std::int8_t> signs;
  /// Coefficients y of docs/math.md, section 1.4, [T, B, L]; empty for dense transitions. The backward writes
  /// them, and the gradient of the parameters is computed from them. The forward does not read them.
  TensorView<T> y;
};

/// Owner of the memory and the recordings of a rollout, for a caller that keeps them nowhere else. The memory
/// is used again.
template <class T>
struct RolloutCache {
  Tensor<T> z,  ///< Coefficients z, as in RolloutMemory.
      y;        ///< Coefficients y, as in RolloutMemory.
  /// Signs of a_t, as in RolloutMemory.
  Tensor<std::int8_t> signs;
  /// Recordings of the stepwise loops on a GPU.
  RecordedLoops records;

  /// Takes memory for `batch` sequences of `length` steps on the device of the transition, and returns views
  /// of it.
  RolloutMemory<T> reserve(Index length, Index batch, const Transition<T>& transition, Activation activation);
};

/// The way in which a GPU carries `batch` sequences of `length` steps: the way that the transition's
/// execution names, or the fastest way that can. On the CPU it is `stepwise`. Throws ValueError, with the
/// reason, where the named way cannot.
template <class T>
RolloutWay rollout_way(const Transition<T>& transition, Index length, Index batch);

/// About how many kernels a rollout of `batch` sequences of `length` steps starts on a GPU. Throws as
/// `rollout_way`.
template <class T>
Index launches_of_rollout(const Transition<T>& transition, Index length, Index batch);

/// Computes h_t = sigma(Q h_{t-1} + a_t) for t = 1 to T (docs/math.md, section 1.2).
///
/// - states [T + 1, B, N]: slot 0 holds h_0; slot t holds a_t = W x_t + b on entry and h_t on return.
/// - modrelu_bias [N]: read for modrelu alone.
/// - lengths [B], or empty when all are T: from step length on, the output is 0.
/// - h_last [B, N]: gets the last live state, which is h_0 where the length is 0.
/// - memory: what the backward needs; `records` keeps the recordings of the loop.
///
/// Throws ShapeError, and ValueError for a transition that is not prepared and as `rollout_way`.
template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, TensorView<T> states, TensorView<T> h_last,
                     const RolloutMemory<T>& memory, RecordedLoops& records);

/// Goes back through time, from the states and the memory that `rollout_forward` left (docs/math.md,
/// section 1.6).
///
/// - d_states [T, B, N]: the gradients that arrive at h_t on entry, and g_t, at the argument of sigma, on
///   return.
/// - d_h_last [B, N]: gradient with respect to the last live state; empty where it is 0.
/// - d_h0 [B, N]: gradient with respect to h_0, overwritten.
///
/// Throws ShapeError, and as `rollout_way`.
template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, ConstTensorView<T> states,
                      ConstTensorView<T> d_h_last, TensorView<T> d_states, TensorView<T> d_h0,
                      const RolloutMemory<T>& memory, RecordedLoops& records);

/// Computes h_t = sigma(Q h_{t-1} + a_t) for t = 1 to T, with memory and recordings of a cache.
template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, TensorView<T> states, TensorView<T> h_last,
                     RolloutCache<T>& cache);
/// Goes back through time, with memory and recordings of the cache that the forward had.
template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, ConstTensorView<T> states,
                      ConstTensorView<T> d_h_last, TensorView<T> d_states, TensorView<T> d_h0,
                      RolloutCache<T>& cache);

}  // namespace orthornn
