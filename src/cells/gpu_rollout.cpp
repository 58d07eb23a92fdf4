#include "cells/gpu_rollout.hpp"

#include <cstdint>
#include <type_traits>

#include "core/back_end.hpp"
#include "core/set_zero.hpp"
#include "cuda/cells/persistent/persistent_rollout.hpp"
#include "cuda/cells/stepwise_rollout.hpp"

namespace orthornn {
namespace {

using cuda::Direction;
using cuda::RolloutArguments;

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
  cuda::start_forward(arguments);
  for (Index t = 0; t < arguments.length; ++t) {
    transition.multiply_add(columns_at(arguments.states, t, arguments),
                            columns_at(arguments.states, t + 1, arguments),
                            coefficients_at(memory.z, t, transition, arguments));
    cuda::finish_forward_step(arguments, t);
  }
}

template <class T>
void step_backward(const Transition<T>& transition, const RolloutArguments<T>& arguments,
                   const RolloutMemory<T>& memory) {
  set_zero(TensorView<T>(arguments.d_h0, {arguments.batch, arguments.hidden_size}, arguments.device));
  for (Index t = arguments.length - 1; t >= 0; --t) {
    cuda::finish_backward_step(arguments, t);
    transition.multiply_add_transposed(
        columns_at(arguments.d_states, t, arguments),
        t > 0 ? columns_at(arguments.d_states, t - 1, arguments) : columns_at(arguments.d_h0, 0, arguments),
        coefficients_at(memory.y, t, transition, arguments));
  }
  cuda::end_backward(arguments);
}

/// The caller's memory and sizes. What belongs to the transition is not among them: that moves by allocations
/// alone, which RepeatedOperations notices; neither do a transition's precision and form change, and N is its
/// own.
template <class T>
RecordedLoops::Key key_of_rollout(Direction direction, const Transition<T>& transition,
                                  const RolloutArguments<T>& a, const RolloutMemory<T>& memory) {
  return {static_cast<std::uintptr_t>(direction),
          key_of(&transition),
          key_of(a.lengths),
          key_of(a.modrelu_bias),
          key_of(a.signs),
          key_of(a.states),
          key_of(a.h_last),
          key_of(a.d_h_last),
          key_of(a.d_states),
          key_of(a.d_h0),
          key_of(memory.z.data()),
          key_of(memory.y.data()),
          static_cast<std::uintptr_t>(a.length),
          static_cast<std::uintptr_t>(a.batch),
          static_cast<std::uintptr_t>(a.activation)};
}

}  // namespace

template <class T>
void gpu_rollout(Direction direction, const Transition<T>& transition, const RolloutArguments<T>& arguments,
                 const RolloutMemory<T>& memory, RecordedLoops& records) {
  if constexpr (has_cuda_bodies) {
    const RolloutWay way = rollout_way(transition, arguments.length, arguments.batch);
    if constexpr (std::is_same_v<T, float>) {
      const float* q = transition.dense_matrix().data;
      if (way == RolloutWay::resident) return cuda::resident_rollout(direction, arguments, q);
      if (way == RolloutWay::cluster) {
        return cuda::cluster_rollout(direction, arguments, q, transition.execution().precision);
      }
    }
    const auto steps = [&] {
      direction == Direction::forward ? step_forward(transition, arguments, memory)
                                      : step_backward(transition, arguments, memory);
    };
    const Index launches = launches_of_rollout(transition, arguments.length, arguments.batch);
    if (launches > RecordedLoops::most_launches) return steps();
    records.run(arguments.device, key_of_rollout(direction, transition, arguments, memory), steps);
  }
}

template void gpu_rollout<float>(Direction, const Transition<float>&, const RolloutArguments<float>&,
                                 const RolloutMemory<float>&, RecordedLoops&);
template void gpu_rollout<double>(Direction, const Transition<double>&, const RolloutArguments<double>&,
                                  const RolloutMemory<double>&, RecordedLoops&);

}  // namespace orthornn
