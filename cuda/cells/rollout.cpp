#include "cuda/cells/rollout.hpp"

#include <cstdint>
#include <type_traits>

#include "cuda/cells/persistent_rollout.hpp"
#include "cuda/cells/stepwise_rollout.hpp"
#include "cuda/core/device.hpp"

namespace orthornn::cuda {
namespace {

template <class T>
MatrixView<T> columns_at(T* data, Index t, const RolloutArguments<T>& arguments) {
  const Index n = arguments.hidden_size;
  return {data + t * arguments.batch * n, n, arguments.batch, n, arguments.device};
}

template <class T>
MatrixView<T> coefficients_at(TensorView<T> coefficients, Index t, const Transition<T>& transition,
                              const RolloutArguments<T>& arguments) {
  const Index count = transition.coefficient_count();
  return {coefficients.data() + t * arguments.batch * count, count, arguments.batch, count, arguments.device};
}

template <class T>
void step_forward(const Transition<T>& transition, const RolloutArguments<T>& arguments,
                  const RolloutMemory<T>& memory) {
  start_forward(arguments);
  for (Index t = 0; t < arguments.length; ++t) {
    transition.multiply_add(columns_at(arguments.states, t, arguments),
                            columns_at(arguments.states, t + 1, arguments),
                            coefficients_at(memory.z, t, transition, arguments));
    finish_forward_step(arguments, t);
  }
}

template <class T>
void step_backward(const Transition<T>& transition, const RolloutArguments<T>& arguments,
                   const RolloutMemory<T>& memory) {
  cuda::fill_zero(arguments.device, arguments.d_h0,
                  static_cast<std::size_t>(arguments.batch * arguments.hidden_size) * sizeof(T));
  for (Index t = arguments.length - 1; t >= 0; --t) {
    finish_backward_step(arguments, t);
    transition.multiply_add_transposed(
        columns_at(arguments.d_states, t, arguments),
        t > 0 ? columns_at(arguments.d_states, t - 1, arguments) : columns_at(arguments.d_h0, 0, arguments),
        coefficients_at(memory.y, t, transition, arguments));
  }
  end_backward(arguments);
}

/// The caller's memory and sizes. What belongs to the transition is not among them: that moves by allocations
/// alone, which RepeatedOperations notices; neither do a transition's precision and form change, and N is its
/// own.
template <class T>
RecordedLoops::Key key_of(Direction direction, const Transition<T>& transition, const RolloutArguments<T>& a,
                          const RolloutMemory<T>& memory) {
  return {static_cast<std::uintptr_t>(direction),
          orthornn::key_of(&transition),
          orthornn::key_of(a.lengths),
          orthornn::key_of(a.modrelu_bias),
          orthornn::key_of(a.signs),
          orthornn::key_of(a.states),
          orthornn::key_of(a.h_last),
          orthornn::key_of(a.d_h_last),
          orthornn::key_of(a.d_states),
          orthornn::key_of(a.d_h0),
          orthornn::key_of(memory.z.data()),
          orthornn::key_of(memory.y.data()),
          static_cast<std::uintptr_t>(a.length),
          static_cast<std::uintptr_t>(a.batch),
          static_cast<std::uintptr_t>(a.activation)};
}

template <class T>
void rollout(Direction direction, const Transition<T>& transition, RolloutWay way,
             const RolloutArguments<T>& arguments, const RolloutMemory<T>& memory, RecordedLoops& records) {
  if constexpr (std::is_same_v<T, float>) {
    const float* q = transition.dense_matrix().data;
    if (way == RolloutWay::resident) return resident_rollout(direction, arguments, q);
    if (way == RolloutWay::cluster) {
      return cluster_rollout(direction, arguments, q, transition.execution().precision);
    }
  }
  const auto steps = [&] {
    direction == Direction::forward ? step_forward(transition, arguments, memory)
                                    : step_backward(transition, arguments, memory);
  };
  const Index launches = launches_of_rollout(transition, arguments.length, arguments.batch);
  if (launches > RecordedLoops::most_launches) return steps();
  records.run(arguments.device, key_of(direction, transition, arguments, memory), steps);
}

}  // namespace

template <class T>
void rollout_forward(const Transition<T>& transition, RolloutWay way, const RolloutArguments<T>& arguments,
                     const RolloutMemory<T>& memory, RecordedLoops& records) {
  rollout(Direction::forward, transition, way, arguments, memory, records);
}

template <class T>
void rollout_backward(const Transition<T>& transition, RolloutWay way, const RolloutArguments<T>& arguments,
                      const RolloutMemory<T>& memory, RecordedLoops& records) {
  rollout(Direction::backward, transition, way, arguments, memory, records);
}

#define ORTHORNN_INSTANTIATE(T)                                                                   \
  template void rollout_forward<T>(const Transition<T>&, RolloutWay, const RolloutArguments<T>&,  \
                                   const RolloutMemory<T>&, RecordedLoops&);                      \
  template void rollout_backward<T>(const Transition<T>&, RolloutWay, const RolloutArguments<T>&, \
                                    const RolloutMemory<T>&, RecordedLoops&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
