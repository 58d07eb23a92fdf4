#include "orthornn/cells/rollout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cells/sequence_columns.hpp"
#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/cells/rollout.hpp"
#include "linalg/eigen_map.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// h <- sigma(h) for the columns of h; signs as large as h, for abs.
template <class T>
void activate(Activation activation, MatrixView<T> h, const T* modrelu_bias, std::int8_t* signs) {
  const Index count = h.rows * h.cols;
  switch (activation) {
    case Activation::tanh:
      eigen(h).array() = eigen(h).array().tanh();
      break;
    case Activation::relu:
      for (Index i = 0; i < count; ++i) h.data[i] = std::max(h.data[i], T{0});
      break;
    case Activation::abs:
      for (Index i = 0; i < count; ++i) {
        signs[i] = static_cast<std::int8_t>((h.data[i] > 0) - (h.data[i] < 0));
        h.data[i] = std::abs(h.data[i]);
      }
      break;
    case Activation::modrelu:
      for (Index j = 0; j < h.cols; ++j) {
        T* column = h.column(j);
        for (Index i = 0; i < h.rows; ++i) {
          const T magnitude = std::max(std::abs(column[i]) + modrelu_bias[i], T{0});
          column[i] = column[i] == T{0} ? T{0} : std::copysign(magnitude, column[i]);
        }
      }
      break;
    case Activation::identity:
      break;
  }
}

/// g <- sigma'(a) * g, the derivative from h = sigma(a) (or its sign).
template <class T>
void differentiate(Activation activation, MatrixView<const T> h, const std::int8_t* signs, MatrixView<T> g) {
  const Index count = g.rows * g.cols;
  switch (activation) {
    case Activation::tanh:
      for (Index i = 0; i < count; ++i) g.data[i] *= T{1} - h.data[i] * h.data[i];
      break;
    case Activation::relu:
      for (Index i = 0; i < count; ++i) g.data[i] = h.data[i] > 0 ? g.data[i] : T{0};
      break;
    case Activation::abs:
      for (Index i = 0; i < count; ++i) g.data[i] *= static_cast<T>(signs[i]);
      break;
    case Activation::modrelu:
      for (Index i = 0; i < count; ++i) g.data[i] = h.data[i] != 0 ? g.data[i] : T{0};
      break;
    case Activation::identity:
      break;
  }
}

/// What both directions tell a GPU.
template <class T>
cuda::RolloutArguments<T> cuda_arguments(const Transition<T>& transition, Activation activation,
                                         TensorView<const std::int32_t> lengths, const T* states,
                                         const Shape& shape, const RolloutMemory<T>& memory) {
  return {.device = transition.device(),
          .length = shape[0] - 1,
          .batch = shape[1],
          .hidden_size = shape[2],
          .activation = activation,
          .lengths = lengths.empty() ? nullptr : lengths.data(),
          .modrelu_bias = nullptr,
          .signs = memory.signs.data(),
          .states = const_cast<T*>(states),  // only the forward direction writes them
          .h_last = nullptr,
          .d_h_last = nullptr,
          .d_states = nullptr,
          .d_h0 = nullptr};
}

template <class T>
void check_states(const Transition<T>& transition, const Shape& states) {
  if (states.rank() == 3 && states[0] >= 1 && states[2] == transition.hidden_size()) return;
  throw ShapeError(fmt::format("states have shape {}, expected [T + 1, B, {}]", to_string(states),
                               transition.hidden_size()));
}

}  // namespace

template <class T>
RolloutMemory<T> RolloutCache<T>::reserve(Index length, Index batch, const Transition<T>& transition,
                                          Activation activation) {
  if (z.device() != transition.device()) {
    z = Tensor<T>({0}, transition.device());
    y = Tensor<T>({0}, transition.device());
    signs = Tensor<std::int8_t>({0}, transition.device());
  }
  z.reserve({length, batch, transition.coefficient_count()});
  y.reserve(z.shape());
  if (activation == Activation::abs) signs.reserve({length, batch, transition.hidden_size()});
  return {.z = z, .signs = signs, .y = y};
}

template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, TensorView<T> states, TensorView<T> h_last,
                     const RolloutMemory<T>& memory, RecordedLoops& records) {
  if (!transition.is_prepared()) throw ValueError("a transition was rolled out before prepare()");
  check_states(transition, states.shape());
  check_shape("h_last", h_last.shape(), {states.shape()[1], states.shape()[2]});
  const Index length = states.shape()[0] - 1;
  const Index batch = states.shape()[1];
  if constexpr (has_cuda_bodies) {
    if (transition.device().is_cuda()) {
      auto arguments =
          cuda_arguments<T>(transition, activation, lengths, states.data(), states.shape(), memory);
      arguments.modrelu_bias = modrelu_bias.data();
      arguments.h_last = h_last.data();
      return cuda::rollout_forward<T>(transition, rollout_way(transition, length, batch), arguments, memory,
                                      records);
    }
  }
  // Threads own whole sequences and carry them through all of T with no synchronisation.
  parallel_for(batch, transition.column_grain(), [&](Index first, Index last) {
    const SequenceColumns own(lengths, length, first, last);
    const MatrixView<T> final_states = own.of(h_last);
    const Index rows = final_states.rows;
    const auto keep_last = [&](MatrixView<const T> h, Index t) {
      for (Index j = 0; j < h.cols; ++j) {
        if (own.live_steps(j) == t) std::copy(h.column(j), h.column(j) + rows, final_states.column(j));
      }
    };
    keep_last(own.of(states[0]), 0);
    for (Index t = 0; t < length; ++t) {
      const MatrixView<T> h = own.of(states[t + 1]);
      transition.multiply_add(own.of(states[t]), h, own.of(memory.z[t]));
      std::int8_t* signs = activation == Activation::abs ? own.of(memory.signs[t]).data : nullptr;
      activate(activation, h, modrelu_bias.data(), signs);
      for (Index j = 0; j < h.cols; ++j) {
        if (t >= own.live_steps(j)) zero_column(h, j);
      }
      keep_last(h, t + 1);
    }
  });
}

template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, ConstTensorView<T> states,
                      ConstTensorView<T> d_h_last, TensorView<T> d_states, TensorView<T> d_h0,
                      const RolloutMemory<T>& memory, RecordedLoops& records) {
  check_states(transition, states.shape());
  const Index length = states.shape()[0] - 1;
  const Index batch = states.shape()[1];
  check_shape("d_states", d_states.shape(), {length, batch, states.shape()[2]});
  check_shape("d_h0", d_h0.shape(), {batch, states.shape()[2]});
  if (!d_h_last.empty()) check_shape("d_h_last", d_h_last.shape(), d_h0.shape());
  if constexpr (has_cuda_bodies) {
    if (transition.device().is_cuda()) {
      auto arguments =
          cuda_arguments<T>(transition, activation, lengths, states.data(), states.shape(), memory);
      arguments.d_h_last = d_h_last.empty() ? nullptr : d_h_last.data();
      arguments.d_states = d_states.data();
      arguments.d_h0 = d_h0.data();
      return cuda::rollout_backward<T>(transition, rollout_way(transition, length, batch), arguments, memory,
                                       records);
    }
  }
  parallel_for(batch, transition.column_grain(), [&](Index first, Index last) {
    const SequenceColumns own(lengths, length, first, last);
    const auto add_last = [&](MatrixView<T> d, Index t) {
      if (d_h_last.empty()) return;
      const MatrixView<const T> arriving = own.of(d_h_last);
      for (Index j = 0; j < d.cols; ++j) {
        if (own.live_steps(j) == t) add_column<T>(arriving.column(j), d.column(j), d.rows);
      }
    };
    const MatrixView<T> initial = own.of(d_h0);
    std::fill(initial.data, initial.data + initial.rows * initial.cols, T{0});
    for (Index t = length - 1; t >= 0; --t) {
      const MatrixView<T> g = own.of(d_states[t]);
      add_last(g, t + 1);
      for (Index j = 0; j < g.cols; ++j) {
        if (t >= own.live_steps(j)) zero_column(g, j);
      }
      const std::int8_t* signs = activation == Activation::abs ? own.of(memory.signs[t]).data : nullptr;
      differentiate<T>(activation, own.of(states[t + 1]), signs, g);
      const MatrixView<T> previous = t > 0 ? own.of(d_states[t - 1]) : initial;
      transition.multiply_add_transposed(g, previous, own.of(memory.y[t]));
    }
    add_last(initial, 0);
  });
}

template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, TensorView<T> states, TensorView<T> h_last,
                     RolloutCache<T>& cache) {
  check_states(transition, states.shape());
  rollout_forward<T>(transition, activation, modrelu_bias, lengths, states, h_last,
                     cache.reserve(states.shape()[0] - 1, states.shape()[1], transition, activation),
                     cache.records);
}

template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, ConstTensorView<T> states,
                      ConstTensorView<T> d_h_last, TensorView<T> d_states, TensorView<T> d_h0,
                      RolloutCache<T>& cache) {
  check_states(transition, states.shape());
  rollout_backward<T>(transition, activation, lengths, states, d_h_last, d_states, d_h0,
                      cache.reserve(states.shape()[0] - 1, states.shape()[1], transition, activation),
                      cache.records);
}

#define ORTHORNN_INSTANTIATE(T)                                                                           \
  template struct RolloutCache<T>;                                                                        \
  template void rollout_forward<T>(const Transition<T>&, Activation, ConstTensorView<T>,                  \
                                   TensorView<const std::int32_t>, TensorView<T>, TensorView<T>,          \
                                   const RolloutMemory<T>&, RecordedLoops&);                              \
  template void rollout_backward<T>(const Transition<T>&, Activation, TensorView<const std::int32_t>,     \
                                    ConstTensorView<T>, ConstTensorView<T>, TensorView<T>, TensorView<T>, \
                                    const RolloutMemory<T>&, RecordedLoops&);                             \
  template void rollout_forward<T>(const Transition<T>&, Activation, ConstTensorView<T>,                  \
                                   TensorView<const std::int32_t>, TensorView<T>, TensorView<T>,          \
                                   RolloutCache<T>&);                                                     \
  template void rollout_backward<T>(const Transition<T>&, Activation, TensorView<const std::int32_t>,     \
                                    ConstTensorView<T>, ConstTensorView<T>, TensorView<T>, TensorView<T>, \
                                    RolloutCache<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
