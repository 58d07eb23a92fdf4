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
                                        TensorView<const std::int32_t> lengths, const Shape& steps,
                                        const RolloutMemory<T>& memory) {
  return {.device = transition.device(),
          .length = steps[0],
          .batch = steps[1],
          .hidden_size = steps[2],
          .activation = activation,
          .lengths = or_null(lengths),
          .signs = memory.signs.data()};
}

template <class T>
void check_steps(const char* what, const Transition<T>& transition, const Shape& steps) {
  if (steps.rank() == 3 && steps[2] == transition.hidden_size()) return;
  throw ShapeError(
      fmt::format("{} have shape {}, expected [T, B, {}]", what, to_string(steps), transition.hidden_size()));
}

/// Steps of T, B and N, and the shape [B, N] of a step.
template <class T>
Shape check_states(const Transition<T>& transition, const RolloutStates<T>& states) {
  const Shape& steps = states.outputs.shape();
  check_steps("outputs", transition, steps);
  check_shape("inputs", states.inputs.shape(), steps);
  check_shape("h_0", states.h_0.shape(), {steps[1], steps[2]});
  check_shape("h_last", states.h_last.shape(), {steps[1], steps[2]});
  return steps;
}

template <class T>
Shape check_gradients(const Transition<T>& transition, const RolloutGradients<T>& gradients) {
  const Shape& steps = gradients.outputs.shape();
  check_steps("outputs", transition, steps);
  if (!gradients.d_outputs.empty()) check_shape("d_outputs", gradients.d_outputs.shape(), steps);
  check_shape("d_inputs", gradients.d_inputs.shape(), steps);
  check_shape("d_h_0", gradients.d_h_0.shape(), {steps[1], steps[2]});
  if (!gradients.d_h_last.empty()) check_shape("d_h_last", gradients.d_h_last.shape(), {steps[1], steps[2]});
  return steps;
}

/// to <- from, unless they are the same memory.
template <class T>
void take(MatrixView<const T> from, MatrixView<T> to) {
  if (from.data != to.data) eigen(to) = eigen(from);
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
                     TensorView<const std::int32_t> lengths, const RolloutStates<T>& states,
                     const RolloutMemory<T>& memory, RecordedLoops& records) {
  if (!transition.is_prepared()) throw ValueError("a transition was rolled out before prepare()");
  const Shape steps = check_states(transition, states);
  const Index length = steps[0];
  if (transition.device().is_cuda()) {
    auto arguments = gpu_arguments<T>(transition, activation, lengths, steps, memory);
    arguments.modrelu_bias = modrelu_bias.data();
    arguments.h_0 = states.h_0.data();
    arguments.inputs = states.inputs.data();
    arguments.outputs = states.outputs.data();
    arguments.h_last = states.h_last.data();
    return gpu_rollout(cuda::Direction::forward, transition, arguments, memory, records);
  }
  // Threads own whole sequences and carry them through all of T with no synchronisation.
  parallel_for(steps[1], transition.column_grain(), [&](Index first, Index last) {
    const SequenceColumns own(lengths, length, first, last);
    auto final_states = eigen(own.of(states.h_last));
    const auto keep_last = [&](MatrixView<const T> h, Index t) {
      own.for_each_of_length(t, [&](Index j) { final_states.col(j) = eigen(h).col(j); });
    };
    MatrixView<const T> previous = own.of(states.h_0);
    keep_last(previous, 0);
    for (Index t = 0; t < length; ++t) {
      const MatrixView<T> h = own.of(states.outputs[t]);
      take(own.of(states.inputs[t]), h);
      transition.multiply_add(previous, h, own.of(memory.z[t]));
      std::int8_t* signs = activation == Activation::abs ? own.of(memory.signs[t]).data : nullptr;
      activate_columns(activation, h, modrelu_bias.data(), signs);
      own.zero_padding(t, h);
      keep_last(h, t + 1);
      previous = h;
    }
  });
}

template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, const RolloutGradients<T>& gradients,
                      const RolloutMemory<T>& memory, RecordedLoops& records) {
  const Shape steps = check_gradients(transition, gradients);
  const Index length = steps[0];
  if (transition.device().is_cuda()) {
    auto arguments = gpu_arguments<T>(transition, activation, lengths, steps, memory);
    // The backward only reads them.
    arguments.outputs = const_cast<T*>(gradients.outputs.data());
    arguments.d_outputs = gradients.d_outputs.empty() ? nullptr : gradients.d_outputs.data();
    arguments.d_h_last = gradients.d_h_last.empty() ? nullptr : gradients.d_h_last.data();
    arguments.d_inputs = gradients.d_inputs.data();
    arguments.d_h_0 = gradients.d_h_0.data();
    return gpu_rollout(cuda::Direction::backward, transition, arguments, memory, records);
  }
  parallel_for(steps[1], transition.column_grain(), [&](Index first, Index last) {
    const SequenceColumns own(lengths, length, first, last);
    const auto add_last = [&](MatrixView<T> d, Index t) {
      if (gradients.d_h_last.empty()) return;
      const auto arriving = eigen(own.of(gradients.d_h_last));
      own.for_each_of_length(t, [&](Index j) { eigen(d).col(j) += arriving.col(j); });
    };
    // What arrives at h_t, to which the products of step t + 1 are added.
    const auto arriving_at = [&](Index t) {
      const MatrixView<T> g = own.of(gradients.d_inputs[t]);
      if (gradients.d_outputs.empty()) {
        eigen(g).setZero();
      } else {
        take(own.of(gradients.d_outputs[t]), g);
      }
      return g;
    };
    const MatrixView<T> initial = own.of(gradients.d_h_0);
    eigen(initial).setZero();
    MatrixView<T> g = length > 0 ? arriving_at(length - 1) : initial;
    for (Index t = length - 1; t >= 0; --t) {
      add_last(g, t + 1);
      own.zero_padding(t, g);
      const std::int8_t* signs = activation == Activation::abs ? own.of(memory.signs[t]).data : nullptr;
      differentiate_columns<T>(activation, own.of(gradients.outputs[t]), signs, g);
      const MatrixView<T> previous = t > 0 ? arriving_at(t - 1) : initial;
      transition.multiply_add_transposed(g, previous, own.of(memory.y[t]));
      g = previous;
    }
    add_last(initial, 0);
  });
}

template <class T>
void rollout_forward(const Transition<T>& transition, Activation activation, ConstTensorView<T> modrelu_bias,
                     TensorView<const std::int32_t> lengths, const RolloutStates<T>& states,
                     RolloutCache<T>& cache) {
  const Shape steps = check_states(transition, states);
  rollout_forward<T>(transition, activation, modrelu_bias, lengths, states,
                     cache.reserve(steps[0], steps[1], transition, activation), cache.records);
}

template <class T>
void rollout_backward(const Transition<T>& transition, Activation activation,
                      TensorView<const std::int32_t> lengths, const RolloutGradients<T>& gradients,
                      RolloutCache<T>& cache) {
  const Shape steps = check_gradients(transition, gradients);
  rollout_backward<T>(transition, activation, lengths, gradients,
                      cache.reserve(steps[0], steps[1], transition, activation), cache.records);
}

#define ORTHORNN_INSTANTIATE(T)                                                                           \
  template RolloutWay rollout_way<T>(const Transition<T>&, Index, Index);                                 \
  template Index launches_of_rollout<T>(const Transition<T>&, Index, Index);                              \
  template struct RolloutCache<T>;                                                                        \
  template void rollout_forward<T>(const Transition<T>&, Activation, ConstTensorView<T>,                  \
                                   TensorView<const std::int32_t>, const RolloutStates<T>&,               \
                                   const RolloutMemory<T>&, RecordedLoops&);                              \
  template void rollout_backward<T>(const Transition<T>&, Activation, TensorView<const std::int32_t>,     \
                                    const RolloutGradients<T>&, const RolloutMemory<T>&, RecordedLoops&); \
  template void rollout_forward<T>(const Transition<T>&, Activation, ConstTensorView<T>,                  \
                                   TensorView<const std::int32_t>, const RolloutStates<T>&,               \
                                   RolloutCache<T>&);                                                     \
  template void rollout_backward<T>(const Transition<T>&, Activation, TensorView<const std::int32_t>,     \
                                    const RolloutGradients<T>&, RolloutCache<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
