#pragma once

#include <cstdint>
#include <memory>

#include "orthornn/cells/activation.hpp"
#include "orthornn/orthogonal/transition.hpp"

namespace orthornn {

struct RecordedRollout;

/// What a rollout forward leaves for the rollout backward, besides the states. Sized before the loop; memory
/// stays.
template <class T>
struct RolloutCache {
  /// z and y of math.md section 1, [T, B, L]; empty for dense transitions.
  Tensor<T> z;
  Tensor<T> y;
  /// sign(a_t) [T, B, N], for abs alone: every other derivative follows from h_t.
  Tensor<std::int8_t> signs;
  /// On a GPU, the stepwise loops as they were recorded last.
  std::shared_ptr<RecordedRollout> recorded;

  /// Also takes the device of the transition.
  void reserve(Index length, Index batch, const Transition<T>& transition, Activation activation);
};

/// The way in which a GPU carries so many sequences of T steps: the one that the transition's execution
/// names, or the fastest that takes them. `stepwise` on the CPU. Throws ValueError, saying why, where the
/// named one does not take them.
template <class T>
RolloutWay rollout_way(const Transition<T>& transition, Index length, Index batch);

/// Whether a CUDA graph should hold a rollout of so many sequences of T steps: one of at most 100,000
/// launches.
template <class T>
bool recordable_rollout(const Transition<T>& transition, Index length, Index batch);

/// h_t = sigma(Q h_{t-1} + a_t) for t = 1 .. T (math.md section 1).
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
                     RolloutCache<T>& cache);

/// Back through time from the same states and cache.
///
/// d_states [T, B, N]; gradients that arrive at h_t on entry, g_t (at the argument of sigma) on return
/// d_h_last [B, N] or empty
/// d_h0     [B, N], overwritten
template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, ConstTensorView<T> states,
                      ConstTensorView<T> d_h_last, TensorView<T> d_states, TensorView<T> d_h0,
                      RolloutCache<T>& cache);

}  // namespace orthornn
