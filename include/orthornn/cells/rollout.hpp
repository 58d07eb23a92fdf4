#pragma once

#include <cstdint>

#include "orthornn/cells/activation.hpp"
#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/orthogonal/transition.hpp"

namespace orthornn {

/// Memory of a rollout besides the states.
template <class T>
struct RolloutMemory {
  /// z of docs/math.md, section 1.4, [T, B, L], empty for dense transitions: forward writes it for backward.
  TensorView<T> z;
  /// sign(a_t) [T, B, N] for abs alone, as every other derivative follows from h_t: likewise.
  TensorView<std::int8_t> signs;
  /// y of docs/math.md, section 1.4, [T, B, L]: backward writes it for the gradient of the parameters. The
  /// forward does not read it.
  TensorView<T> y;
};

/// Both, for a caller that has nowhere else to keep them. Memory stays.
template <class T>
struct RolloutCache {
  Tensor<T> z, y;
  Tensor<std::int8_t> signs;
  /// The stepwise loops on a GPU.
  RecordedLoops records;

  /// Memory for so many sequences of T steps, on the device of the transition.
  RolloutMemory<T> reserve(Index length, Index batch, const Transition<T>& transition, Activation activation);
};

/// The way in which a GPU carries so many sequences of T steps: the one that the transition's execution
/// names, or the fastest that takes them. `stepwise` on the CPU. Throws ValueError, saying why, where the
/// named one does not take them.
template <class T>
RolloutWay rollout_way(const Transition<T>& transition, Index length, Index batch);

/// Kernels that a rollout of so many sequences of T steps is on a GPU, about.
template <class T>
Index launches_of_rollout(const Transition<T>& transition, Index length, Index batch);

/// h_t = sigma(Q h_{t-1} + a_t) for t = 1 .. T (docs/math.md, section 1.2).
///
/// states       [T + 1, B, N]; slot 0 holds h_0; slot t holds W x_t + b on entry and h_t on return
/// modrelu_bias [N], read for modrelu alone
/// lengths      [B] or empty; from step length on, the output is 0
/// h_last       [B, N], the last live state; h_0 where the length is 0
///
/// Throws ValueError for a transition that is not prepared.
template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, TensorView<T> states, TensorView<T> h_last,
                     const RolloutMemory<T>& memory, RecordedLoops& records);

/// Back through time from the same states and memory.
///
/// d_states [T, B, N]; gradients that arrive at h_t on entry, g_t (at the argument of sigma) on return
/// d_h_last [B, N] or empty
/// d_h0     [B, N], overwritten
template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, ConstTensorView<T> states,
                      ConstTensorView<T> d_h_last, TensorView<T> d_states, TensorView<T> d_h0,
                      const RolloutMemory<T>& memory, RecordedLoops& records);

/// The same with the memory of a cache.
template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, TensorView<T> states, TensorView<T> h_last,
                     RolloutCache<T>& cache);
template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, ConstTensorView<T> states,
                      ConstTensorView<T> d_h_last, TensorView<T> d_states, TensorView<T> d_h0,
                      RolloutCache<T>& cache);

}  // namespace orthornn
