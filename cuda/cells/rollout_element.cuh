#pragma once

#include "cuda/cells/activation.cuh"
#include "cuda/cells/rollout_arguments.hpp"

namespace orthornn::cuda {

/// One coordinate of one sequence's state, as the thread that owns it carries it through time. A coordinate
/// beyond N or B (kernels work on padded sizes) is 0 throughout and touches no memory. T and B N must fit an
/// Offset: int where registers are scarce. `place` is t B N, which loops over time carry along.
///
/// What others wait for comes first: `value` computes it, `keep` writes to memory what the world is to know.
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

  /// What a step reads: W x_t + b.
  struct Input {
    T a;
  };
  static constexpr int input_count = 1;
  /// Where it lies; null where there is none.
  __device__ const T* input(const RolloutArguments<T>& a, Offset t, Index place, int) const {
    return live_ == absent || t >= a.length ? nullptr : &next_state(a, place);
  }
  /// From the numbers that lay there.
  __device__ Input input_of(const RolloutArguments<T>&, Index, const T (&numbers)[input_count]) const {
    return {numbers[0]};
  }

  /// h_0
  __device__ T start(const RolloutArguments<T>& a) const {
    if (live_ == absent) return T{0};
    const T h = a.states[offset_];
    if (live_ == 0) a.h_last[offset_] = h;
    return h;
  }
  /// h_t from (Q h_{t-1})_row.
  __device__ T value(const RolloutArguments<T>& a, Offset t, T product, const Input& input) const {
    return t < live_ ? activate(a.activation, product + input.a, modrelu_bias_) : T{0};
  }
  __device__ void keep(const RolloutArguments<T>& a, Offset t, Index place, T product, const Input& input,
                       T h) const {
    if (live_ == absent) return;
    next_state(a, place) = h;
    if (a.activation == Activation::abs) a.signs[place + offset_] = sign_of(product + input.a);
    if (t + 1 == live_) a.h_last[offset_] = h;
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

  /// What a step reads: dh_t, h_t, and for abs the sign of its argument.
  struct Input {
    T d;
    T h;
    std::int8_t sign;
  };
  static constexpr int input_count = 2;
  __device__ const T* input(const RolloutArguments<T>& a, Offset t, Index place, int i) const {
    if (live_ == absent || t < 0) return nullptr;
    return i == 0 ? &a.d_states[place + offset_] : &a.states[place + a.batch * a.hidden_size + offset_];
  }
  __device__ Input input_of(const RolloutArguments<T>& a, Index place,
                            const T (&numbers)[input_count]) const {
    const bool has_sign = a.activation == Activation::abs && live_ != absent;
    return {numbers[0], numbers[1], has_sign ? a.signs[place + offset_] : std::int8_t{0}};
  }

  /// g_t from (Q^T g_{t+1})_row.
  __device__ T value(const RolloutArguments<T>& a, Offset t, T product, const Input& input) const {
    T e = product + input.d;
    if (t + 1 == live_ && a.d_h_last != nullptr) e += a.d_h_last[offset_];
    return t < live_ ? differentiate(a.activation, input.h, input.sign, e) : T{0};
  }
  __device__ void keep(const RolloutArguments<T>& a, Offset, Index place, T, const Input&, T g) const {
    if (live_ != absent) a.d_states[place + offset_] = g;
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

/// What an element reads in step t, at once.
template <class Element, class T, class Offset>
__device__ __forceinline__ typename Element::Input load_input(const Element& element,
                                                              const RolloutArguments<T>& a, Offset t,
                                                              Index place) {
  T numbers[Element::input_count];
#pragma unroll
  for (int i = 0; i < Element::input_count; ++i) {
    const T* from = element.input(a, t, place, i);
    numbers[i] = from == nullptr ? T{0} : *from;
  }
  return element.input_of(a, place, numbers);
}

}  // namespace orthornn::cuda
