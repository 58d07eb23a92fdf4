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

/// What a rollout reads and writes forward.
template <class T>
struct RolloutStates {
  ConstTensorView<T> h_0;     ///< States before the first step, [B, N]; may be the memory of h_last.
  ConstTensorView<T> inputs;  ///< a_t = W x_t + b, [T, B, N]; may be the memory of the outputs.
  TensorView<T> outputs;      ///< Gets h_1 to h_T, [T, B, N].
  TensorView<T> h_last;       ///< Gets the last live states, which are h_0 where the length is 0, [B, N].
};

/// What a rollout reads and writes backward.
template <class T>
struct RolloutGradients {
  ConstTensorView<T> outputs;    ///< The states h_1 to h_T that the forward left, [T, B, N].
  ConstTensorView<T> d_outputs;  ///< Gradients that arrive at them, [T, B, N]; may be the memory of d_inputs;
                                 ///< empty where they are 0.
  ConstTensorView<T>
      d_h_last;            ///< Gradient that arrives at the last live states, [B, N]; empty where it is 0.
  TensorView<T> d_inputs;  ///< Gets g_t, the gradients at the arguments of sigma, [T, B, N].
  TensorView<T> d_h_0;     ///< Gets the gradient at h_0, [B, N].
};

/// Computes h_t = sigma(Q h_{t-1} + a_t) for t = 1 to T (docs/math.md, section 1.2).
///
/// - modrelu_bias [N]: read for modrelu alone.
/// - lengths [B], or empty when all are T: from step length on, the output is 0.
/// - memory: what the backward needs; `records` keeps the recordings of the loop.
///
/// Throws ShapeError, and ValueError for a transition that is not prepared and as `rollout_way`.
template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, const RolloutStates<T>& states,
                     const RolloutMemory<T>& memory, RecordedLoops& records);

/// Goes back through time, from the states and the memory that `rollout_forward` left (docs/math.md,
/// section 1.6). Throws ShapeError, and as `rollout_way`.
template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, const RolloutGradients<T>& gradients,
                      const RolloutMemory<T>& memory, RecordedLoops& records);

/// Computes h_t = sigma(Q h_{t-1} + a_t) for t = 1 to T, with memory and recordings of a cache.
template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, const RolloutStates<T>& states,
                     RolloutCache<T>& cache);
/// Goes back through time, with memory and recordings of the cache that the forward had.
template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, const RolloutGradients<T>& gradients,
                      RolloutCache<T>& cache);

}  // namespace orthornn
