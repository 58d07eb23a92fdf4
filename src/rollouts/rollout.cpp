#include "orthornn/rollouts/rollout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "core/live_steps.hpp"
#include "core/parallel.hpp"
#include "linalg/eigen_map.hpp"
#include "orthornn/core/error.hpp"
#include "products/plan.hpp"
#include "rollouts/gpu_rollout.hpp"

namespace orthornn {
namespace {

/// The sequences first .. last - 1 of a batch, which one thread carries through all steps.
class SequenceColumns {
 public:
  SequenceColumns(TensorView<const std::int32_t> lengths, Index length, Index first, Index last)
      : lengths_(lengths), length_(length), first_(first), count_(last - first) {}

  /// Their columns of a tensor [B, ..].
  template <class View>
  auto of(View tensor) const {
    return columns_of(tensor).columns(first_, count_);
  }
  /// Zeros in the columns of the sequences without a step t.
  template <class T>
  void zero_padding(Index t, MatrixView<T> columns) const {
    for (Index j = 0; j < count_; ++j) {
      if (t >= live_steps(j)) eigen(columns).col(j).setZero();
    }
  }
  /// Calls body(column) for the sequences of `length` live steps.
  template <class Body>
  void for_each_of_length(Index length, const Body& body) const {
    for (Index j = 0; j < count_; ++j) {
      if (live_steps(j) == length) body(j);
    }
  }

 private:
  Index live_steps(Index j) const { return orthornn::live_steps(lengths_, length_, first_ + j); }

  TensorView<const std::int32_t> lengths_;
  Index length_, first_, count_;
};

/// Calls body(constant) with the activation as a constant, of which the compiler makes a loop over vectors.
template <class Body>
void with_constant(Activation activation, const Body& body) {
  using enum Activation;
  switch (activation) {
    case tanh:
      return body(std::integral_constant<Activation, tanh>());
    case relu:
      return body(std::integral_constant<Activation, relu>());
    case abs:
      return body(std::integral_constant<Activation, abs>());
    case modrelu:
      return body(std::integral_constant<Activation, modrelu>());
    case identity:
      return;
  }
}

/// h <- sigma(h) for the columns of h; signs as large as h, for abs.
template <class T>
void activate_columns(Activation activation, MatrixView<T> h, const T* modrelu_bias, std::int8_t* signs) {
  // Eigen has a tanh of vectors.
  if (activation == Activation::tanh) {
    eigen(h).array() = eigen(h).array().tanh();
    return;
  }
  with_constant(activation, [&](auto constant) {
    for (Index j = 0; j < h.cols; ++j) {
      T* column = h.column(j);
      if constexpr (constant == Activation::abs) {
        for (Index i = 0; i < h.rows; ++i) signs[j * h.rows + i] = sign_of(column[i]);
      }
      for (Index i = 0; i < h.rows; ++i) {
        const T bias = constant == Activation::modrelu ? modrelu_bias[i] : T{0};
        column[i] = activate<T>(constant, column[i], bias);
      }
    }
  });
}

/// g <- sigma'(a) * g, the derivative from h = sigma(a) (or its sign).
template <class T>
void differentiate_columns(Activation activation, MatrixView<const T> h, const std::int8_t* signs,
                           MatrixView<T> g) {
  const Index count = g.rows * g.cols;
  with_constant(activation, [&](auto constant) {
    for (Index i = 0; i < count; ++i) {
      const std::int8_t sign = constant == Activation::abs ? signs[i] : std::int8_t{0};
      g.data[i] = differentiate<T>(constant, h.data[i], sign, g.data[i]);
    }
  });
}

/// What both directions tell a GPU.
template <class T>
cuda::RolloutArguments<T> gpu_arguments(const Transition<T>& transition, Activation activation,
                                        TensorView<const std::int32_t> lengths, const T* states,
                                        const Shape& shape, const RolloutMemory<T>& memory) {
  return {.device = transition.device(),
          .length = shape[0] - 1,
          .batch = shape[1],
          .hidden_size = shape[2],
          .activation = activation,
          .lengths = or_null(lengths),
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
RolloutWay rollout_way(const Transition<T>& transition, Index length, Index batch) {
  return planned_way<T>(transition.form(), transition.hidden_size(), length, batch, transition.execution());
}

template <class T>
Index launches_of_rollout(const Transition<T>& transition, Index length, Index batch) {
  if (rollout_way(transition, length, batch) != RolloutWay::stepwise) return 1;
  // A product, and a kernel that finishes the step. A sequence this long is recorded in no case.
  const Index of_step = transition.launches_of_product() + 1;
  return std::min(length, RecordedLoops::most_launches) * of_step;
}

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
  if (transition.device().is_cuda()) {
    auto arguments = gpu_arguments<T>(transition, activation, lengths, states.data(), states.shape(), memory);
    arguments.modrelu_bias = modrelu_bias.data();
    arguments.h_last = h_last.data();
    return gpu_rollout(cuda::Direction::forward, transition, arguments, memory, records);
  }
  // Threads own whole sequences and carry them through all of T with no synchronisation.
  parallel_for(batch, transition.column_grain(), [&](Index first, Index last) {
    const SequenceColumns own(lengths, length, first, last);
    auto final_states = eigen(own.of(h_last));
    const auto keep_last = [&](MatrixView<const T> h, Index t) {
      own.for_each_of_length(t, [&](Index j) { final_states.col(j) = eigen(h).col(j); });
    };
    keep_last(own.of(states[0]), 0);
    for (Index t = 0; t < length; ++t) {
      const MatrixView<T> h = own.of(states[t + 1]);
      transition.multiply_add(own.of(states[t]), h, own.of(memory.z[t]));
      std::int8_t* signs = activation == Activation::abs ? own.of(memory.signs[t]).data : nullptr;
      activate_columns(activation, h, modrelu_bias.data(), signs);
      own.zero_padding(t, h);
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
  if (transition.device().is_cuda()) {
    auto arguments = gpu_arguments<T>(transition, activation, lengths, states.data(), states.shape(), memory);
    arguments.d_h_last = d_h_last.empty() ? nullptr : d_h_last.data();
    arguments.d_states = d_states.data();
    arguments.d_h0 = d_h0.data();
    return gpu_rollout(cuda::Direction::backward, transition, arguments, memory, records);
  }
  parallel_for(batch, transition.column_grain(), [&](Index first, Index last) {
    const SequenceColumns own(lengths, length, first, last);
    const auto add_last = [&](MatrixView<T> d, Index t) {
      if (d_h_last.empty()) return;
      const auto arriving = eigen(own.of(d_h_last));
      own.for_each_of_length(t, [&](Index j) { eigen(d).col(j) += arriving.col(j); });
    };
    const MatrixView<T> initial = own.of(d_h0);
    eigen(initial).setZero();
    for (Index t = length - 1; t >= 0; --t) {
      const MatrixView<T> g = own.of(d_states[t]);
      add_last(g, t + 1);
      own.zero_padding(t, g);
      const std::int8_t* signs = activation == Activation::abs ? own.of(memory.signs[t]).data : nullptr;
      differentiate_columns<T>(activation, own.of(states[t + 1]), signs, g);
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
  template RolloutWay rollout_way<T>(const Transition<T>&, Index, Index);                                 \
  template Index launches_of_rollout<T>(const Transition<T>&, Index, Index);                              \
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
