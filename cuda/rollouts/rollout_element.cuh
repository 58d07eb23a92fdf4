#pragma once

#include "cuda/core/kernel.cuh"
#include "cuda/rollouts/rollout_arguments.hpp"

namespace orthornn::cuda {

/// Where the numbers of step t begin in all arrays of steps, [B, N]. Loops over time carry it along. After
/// the last step it is the place of a step that is not there, where nothing is read or written.
using StepPlace = Index;

template <class T>
__device__ StepPlace place_of_step(const RolloutArguments<T>& a, Index t) {
  return t * a.batch * a.hidden_size;
}

/// Where a coordinate of a sequence's state lies, and how many steps it lives. Those of a direction set
/// `live_` themselves: where this did, and forward asked again for its bias, tensor_core_rollout took up to
/// three registers more.
template <class T, class Offset>
class LiveElement {
 public:
  __device__ bool present() const { return live_ != absent; }

 protected:
  LiveElement() = default;
  __device__ LiveElement(const RolloutArguments<T>& a, Index row, Index sequence)
      : offset_(static_cast<Offset>(sequence * a.hidden_size + row)) {}
  static __device__ bool is_padding(const RolloutArguments<T>& a, Index row, Index sequence) {
    return row >= a.hidden_size || sequence >= a.batch;
  }
  static __device__ Offset steps_of(const RolloutArguments<T>& a, Index sequence) {
    return a.lengths == nullptr ? static_cast<Offset>(a.length) : a.lengths[sequence];
  }

  static constexpr Offset absent = -1;

  Offset offset_ = 0;
  /// Steps of the sequence, or `absent`.
  Offset live_ = absent;
};

/// One coordinate of one sequence's state, as the thread that owns it carries it through time. A coordinate
/// beyond N or B (kernels work on padded sizes) is not `present`: it is 0 throughout and touches no memory. T
/// and B N must fit an Offset: int where registers are scarce. Steps are 0 <= t < T.
///
/// What others wait for comes first: `value` computes it, `keep` writes to memory what the world is to know.
template <class T, Direction direction, class Offset = int>
class RolloutElement;

template <class T, class Offset>
class RolloutElement<T, Direction::forward, Offset> : public LiveElement<T, Offset> {
 public:
  RolloutElement() = default;
  __device__ RolloutElement(const RolloutArguments<T>& a, Index row, Index sequence)
      : LiveElement<T, Offset>(a, row, sequence) {
    if (this->is_padding(a, row, sequence)) return;
    live_ = this->steps_of(a, sequence);
    if (a.activation == Activation::modrelu) modrelu_bias_ = a.modrelu_bias[row];
  }
  using LiveElement<T, Offset>::present;

  /// What a step reads: W x_t + b.
  struct Input {
    T a;
  };
  static constexpr int input_count = 1;
  /// Whether there is such an input. What is not there is 0.
  static __device__ bool has_input(const RolloutArguments<T>&, int) { return true; }
  /// Where it lies, of a present element.
  __device__ const T* input(const RolloutArguments<T>& a, StepPlace place, int) const {
    return a.inputs + (place + offset_);
  }
  /// From the numbers that lay there.
  __device__ Input input_of(const RolloutArguments<T>&, Offset, const T (&numbers)[input_count]) const {
    return {numbers[0]};
  }

  /// h_0
  __device__ T start(const RolloutArguments<T>& a) const {
    if (!present()) return T{0};
    const T h = a.h_0[offset_];
    if (live_ == 0) a.h_last[offset_] = h;
    return h;
  }
  /// h_{t+1} from (Q h_t)_row.
  __device__ T value(const RolloutArguments<T>& a, Offset t, T product, const Input& input) const {
    const T h = activate(a.activation, product + input.a, modrelu_bias_);
    return t < live_ ? h : T{0};
  }
  __device__ void keep(const RolloutArguments<T>& a, Offset t, StepPlace place, T product, const Input& input,
                       T h) const {
    if (!present()) return;
    a.outputs[place + offset_] = h;
    if (a.activation == Activation::abs) a.signs[place + offset_] = sign_of(product + input.a);
    if (t + 1 == live_) a.h_last[offset_] = h;
  }

 private:
  using LiveElement<T, Offset>::offset_;
  using LiveElement<T, Offset>::live_;

  T modrelu_bias_ = 0;
};

template <class T, class Offset>
class RolloutElement<T, Direction::backward, Offset> : public LiveElement<T, Offset> {
 public:
  RolloutElement() = default;
  __device__ RolloutElement(const RolloutArguments<T>& a, Index row, Index sequence)
      : LiveElement<T, Offset>(a, row, sequence) {
    if (!this->is_padding(a, row, sequence)) live_ = this->steps_of(a, sequence);
  }
  using LiveElement<T, Offset>::present;

  /// What a step reads: dh_t, h_t, and for abs the sign of its argument.
  struct Input {
    T d;
    T h;
    std::int8_t sign;
  };
  static constexpr int input_count = 2;
  static __device__ bool has_input(const RolloutArguments<T>& a, int i) {
    return i != 0 || a.d_outputs != nullptr;
  }
  __device__ const T* input(const RolloutArguments<T>& a, StepPlace place, int i) const {
    return (i == 0 ? a.d_outputs : a.outputs) + (place + offset_);
  }
  __device__ Input input_of(const RolloutArguments<T>& a, Offset t, const T (&numbers)[input_count]) const {
    const bool has_sign = a.activation == Activation::abs && present();
    return {numbers[0], numbers[1],
            has_sign ? a.signs[Index{t} * a.batch * a.hidden_size + offset_] : std::int8_t{0}};
  }

  /// g_t from (Q^T g_{t+1})_row.
  __device__ T value(const RolloutArguments<T>& a, Offset t, T product, const Input& input) const {
    T e = product + input.d;
    if (t + 1 == live_ && a.d_h_last != nullptr) e += a.d_h_last[offset_];
    const T g = differentiate(a.activation, input.h, input.sign, e);
    return t < live_ ? g : T{0};
  }
  __device__ void keep(const RolloutArguments<T>& a, Offset, StepPlace place, T, const Input&, T g) const {
    if (present()) a.d_inputs[place + offset_] = g;
  }
  /// dh_0 from (Q^T g_1)_row.
  __device__ void end(const RolloutArguments<T>& a, T product) const {
    if (!present()) return;
    a.d_h_0[offset_] = live_ == 0 && a.d_h_last != nullptr ? product + a.d_h_last[offset_] : product;
  }

 private:
  using LiveElement<T, Offset>::offset_;
  using LiveElement<T, Offset>::live_;
};

/// What an element reads in a step, at once.
template <class Element, class T, class Offset>
__device__ __forceinline__ typename Element::Input load_input(const Element& element,
                                                              const RolloutArguments<T>& a, Offset t,
                                                              StepPlace place) {
  T numbers[Element::input_count];
#pragma unroll
  for (int i = 0; i < Element::input_count; ++i)
    numbers[i] = element.present() && Element::has_input(a, i) ? *element.input(a, place, i) : T{0};
  return element.input_of(a, t, numbers);
}

}  // namespace orthornn::cuda
