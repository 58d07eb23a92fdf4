#pragma once

#include "cuda/cells/activation.cuh"
#include "cuda/cells/rollout_arguments.hpp"

namespace orthornn::cuda {

/// One coordinate of one sequence's state, as the thread that owns it carries it through time. A coordinate
/// beyond N or B (kernels work on padded sizes) is 0 throughout and touches no memory. T and B N must fit an
/// Offset: int where registers are scarce.
template <class T, Direction direction, class Offset = int>
class RolloutElement;

template <class T, class Offset>
class RolloutElement<T, Direction::forward, Offset> {
 public:
  RolloutElement() = default;
  __device__ RolloutElement(const RolloutArguments<T>& a, Index row, Index sequence)
      : offset_(static_cast<Offset>(sequence * a.hidden_size + row)) {
    if (row >= a.hidden_size || sequence >= a.batch) return;
    live_ = a.lengths == nullptr ? static_cast<Offset>(a.length) : a.lengths[sequence];
    if (a.activation == Activation::modrelu) modrelu_bias_ = a.modrelu_bias[row];
  }

  /// What step t reads: W x_t + b.
  struct Input {
    T a;
  };
  __device__ Input load(const RolloutArguments<T>& a, Index t, Index place) const {
    if (live_ == absent || t >= a.length) return {T{0}};
    return {next_state(a, place)};
  }
  /// h_0
  __device__ T start(const RolloutArguments<T>& a) const {
    if (live_ == absent) return T{0};
    const T h = a.states[offset_];
    if (live_ == 0) a.h_last[offset_] = h;
    return h;
  }
  /// h_t from (Q h_{t-1})_row.
  __device__ T finish(const RolloutArguments<T>& a, Index t, Index place, T product,
                      const Input& input) const {
    if (live_ == absent) return T{0};
    const T argument = product + input.a;
    if (a.activation == Activation::abs) a.signs[place + offset_] = sign_of(argument);
    const T h = t < live_ ? activate(a.activation, argument, modrelu_bias_) : T{0};
    next_state(a, place) = h;
    if (t + 1 == live_) a.h_last[offset_] = h;
    return h;
  }

 private:
  static constexpr Offset absent = -1;

  __device__ T& next_state(const RolloutArguments<T>& a, Index place) const {
    return a.states[place + a.batch * a.hidden_size + offset_];
  }

  Offset offset_ = 0;
  /// Steps of the sequence, or `absent`.
  Offset live_ = absent;
  T modrelu_bias_ = 0;
};

template <class T, class Offset>
class RolloutElement<T, Direction::backward, Offset> {
 public:
  RolloutElement() = default;
  __device__ RolloutElement(const RolloutArguments<T>& a, Index row, Index sequence)
      : offset_(static_cast<Offset>(sequence * a.hidden_size + row)) {
    if (row >= a.hidden_size || sequence >= a.batch) return;
    live_ = a.lengths == nullptr ? static_cast<Offset>(a.length) : a.lengths[sequence];
  }

  /// What step t reads: dh_t, and h_t or the sign of its argument.
  struct Input {
    T d;
    T h;
  };
  __device__ Input load(const RolloutArguments<T>& a, Index t, Index place) const {
    if (live_ == absent || t < 0) return {T{0}, T{0}};
    return {a.d_states[place + offset_], a.activation == Activation::abs
                                             ? static_cast<T>(a.signs[place + offset_])
                                             : a.states[place + a.batch * a.hidden_size + offset_]};
  }
  /// g_t from (Q^T g_{t+1})_row.
  __device__ T finish(const RolloutArguments<T>& a, Index t, Index place, T product,
                      const Input& input) const {
    if (live_ == absent) return T{0};
    T e = product + input.d;
    if (t + 1 == live_ && a.d_h_last != nullptr) e += a.d_h_last[offset_];
    const T g = t < live_ ? differentiate(a.activation, input.h, input.h, e) : T{0};
    a.d_states[place + offset_] = g;
    return g;
  }
  /// dh_0 from (Q^T g_1)_row.
  __device__ void end(const RolloutArguments<T>& a, T product) const {
    if (live_ == absent) return;
    a.d_h0[offset_] = live_ == 0 && a.d_h_last != nullptr ? product + a.d_h_last[offset_] : product;
  }

 private:
  static constexpr Offset absent = -1;

  Offset offset_ = 0;
  /// Steps of the sequence, or `absent`.
  Offset live_ = absent;
};

}  // namespace orthornn::cuda
