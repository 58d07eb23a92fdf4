#include "cuda/cells/rollout.hpp"

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/cells/persistent_rollout.hpp"
#include "cuda/cells/stepwise_rollout.hpp"
#include "cuda/core/device.hpp"
#include "orthornn/core/repeated_operations.hpp"

namespace orthornn {

/// The stepwise loops: thousands of launches, which take the host longer than the GPU. More than a graph
/// should hold run directly.
struct RecordedRollout {
  struct Loop {
    /// What it reads and writes, and how much of it: other numbers, another loop.
    std::vector<std::uintptr_t> key;
    RepeatedOperations operations;
  };
  Loop forward, backward;

  explicit RecordedRollout(Device device)
      : forward{{}, RepeatedOperations(device)}, backward{{}, RepeatedOperations(device)} {}
};

}  // namespace orthornn

namespace orthornn::cuda {
namespace {

template <class T>
MatrixView<T> columns_at(T* data, Index t, const RolloutArguments<T>& arguments) {
  const Index n = arguments.hidden_size;
  return {data + t * arguments.batch * n, n, arguments.batch, n, arguments.device};
}

template <class T>
MatrixView<T> coefficients_at(Tensor<T>& coefficients, Index t, const Transition<T>& transition,
                              const RolloutArguments<T>& arguments) {
  const Index count = transition.coefficient_count();
  return {coefficients.data() + t * arguments.batch * count, count, arguments.batch, count, arguments.device};
}

template <class T>
void step_forward(const Transition<T>& transition, const RolloutArguments<T>& arguments,
                  RolloutCache<T>& cache) {
  start_forward(arguments);
  for (Index t = 0; t < arguments.length; ++t) {
    transition.multiply_add(columns_at(arguments.states, t, arguments),
                            columns_at(arguments.states, t + 1, arguments),
                            coefficients_at(cache.z, t, transition, arguments));
    finish_forward_step(arguments, t);
  }
}

template <class T>
void step_backward(const Transition<T>& transition, const RolloutArguments<T>& arguments,
                   RolloutCache<T>& cache) {
  cuda::fill_zero(arguments.device, arguments.d_h0,
                  static_cast<std::size_t>(arguments.batch * arguments.hidden_size) * sizeof(T));
  for (Index t = arguments.length - 1; t >= 0; --t) {
    finish_backward_step(arguments, t);
    transition.multiply_add_transposed(
        columns_at(arguments.d_states, t, arguments),
        t > 0 ? columns_at(arguments.d_states, t - 1, arguments) : columns_at(arguments.d_h0, 0, arguments),
        coefficients_at(cache.y, t, transition, arguments));
  }
  end_backward(arguments);
}

/// The caller's memory and sizes. What belongs to the transition and the cache is not among them: that moves
/// by allocations alone, which RepeatedOperations notices; neither do a transition's precision and form
/// change, and N is its own.
template <class T>
std::vector<std::uintptr_t> key_of(const Transition<T>& transition, const RolloutArguments<T>& a) {
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  return {address(&transition),
          address(a.lengths),
          address(a.modrelu_bias),
          address(a.signs),
          address(a.states),
          address(a.h_last),
          address(a.d_h_last),
          address(a.d_states),
          address(a.d_h0),
          static_cast<std::uintptr_t>(a.length),
          static_cast<std::uintptr_t>(a.batch),
          static_cast<std::uintptr_t>(a.activation)};
}

template <class T>
void rollout(Direction direction, const Transition<T>& transition, RolloutWay way,
             const RolloutArguments<T>& arguments, RolloutCache<T>& cache) {
  if constexpr (std::is_same_v<T, float>) {
    const float* q = transition.dense_matrix().data;
    if (way == RolloutWay::resident) return resident_rollout(direction, arguments, q);
    if (way == RolloutWay::cluster) {
      return cluster_rollout(direction, arguments, q, transition.execution().precision);
    }
  }
  const bool forward = direction == Direction::forward;
  const auto steps = [&] {
    forward ? step_forward(transition, arguments, cache) : step_backward(transition, arguments, cache);
  };
  if (!recordable_rollout(transition, arguments.length, arguments.batch)) return steps();
  if (!cache.recorded) cache.recorded = std::make_shared<RecordedRollout>(arguments.device);
  RecordedRollout::Loop& loop = forward ? cache.recorded->forward : cache.recorded->backward;
  if (auto key = key_of(transition, arguments); key != loop.key) {
    loop.operations.forget();
    loop.key = std::move(key);
  }
  loop.operations.run(steps);
}

}  // namespace

template <class T>
void rollout_forward(const Transition<T>& transition, RolloutWay way, const RolloutArguments<T>& arguments,
                     RolloutCache<T>& cache) {
  rollout(Direction::forward, transition, way, arguments, cache);
}

template <class T>
void rollout_backward(const Transition<T>& transition, RolloutWay way, const RolloutArguments<T>& arguments,
                      RolloutCache<T>& cache) {
  rollout(Direction::backward, transition, way, arguments, cache);
}

#define ORTHORNN_INSTANTIATE(T)                                                                   \
  template void rollout_forward<T>(const Transition<T>&, RolloutWay, const RolloutArguments<T>&,  \
                                   RolloutCache<T>&);                                             \
  template void rollout_backward<T>(const Transition<T>&, RolloutWay, const RolloutArguments<T>&, \
                                    RolloutCache<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
