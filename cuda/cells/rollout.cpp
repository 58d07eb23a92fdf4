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
struct RecordedLoops {
  struct Loop {
    /// What it reads and writes, and how much of it: other numbers, another loop.
    std::vector<std::uintptr_t> key;
    RepeatedOperations operations;
  };
  /// Training and evaluation have their own sizes; so have two forwards before their backwards.
  static constexpr std::size_t most = 4;

  explicit RecordedLoops(Device where) : device(where) {}

  /// The loop with this key; a new one in place of the oldest where there is none.
  RepeatedOperations& loop(std::vector<std::uintptr_t> key) {
    for (Loop& known : loops) {
      if (known.key == key) return known.operations;
    }
    Loop fresh{std::move(key), RepeatedOperations(device)};
    if (loops.size() < most) {
      loops.push_back(std::move(fresh));
      return loops.back().operations;
    }
    loops[next] = std::move(fresh);
    RepeatedOperations& operations = loops[next].operations;
    next = (next + 1) % most;
    return operations;
  }

  Device device;
  std::vector<Loop> loops;
  std::size_t next = 0;
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
std::vector<std::uintptr_t> key_of(Direction direction, const Transition<T>& transition,
                                   const RolloutArguments<T>& a, const RolloutMemory<T>& memory) {
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  return {static_cast<std::uintptr_t>(direction),
          address(&transition),
          address(a.lengths),
          address(a.modrelu_bias),
          address(a.signs),
          address(a.states),
          address(a.h_last),
          address(a.d_h_last),
          address(a.d_states),
          address(a.d_h0),
          address(memory.z.data()),
          address(memory.y.data()),
          static_cast<std::uintptr_t>(a.length),
          static_cast<std::uintptr_t>(a.batch),
          static_cast<std::uintptr_t>(a.activation)};
}

template <class T>
void rollout(Direction direction, const Transition<T>& transition, RolloutWay way,
             const RolloutArguments<T>& arguments, const RolloutMemory<T>& memory, RolloutRecords& records) {
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
  // Within another recording the steps become part of that.
  if (is_recording(arguments.device) || !recordable_rollout(transition, arguments.length, arguments.batch)) {
    return steps();
  }
  if (!records.loops) records.loops = std::make_shared<RecordedLoops>(arguments.device);
  records.loops->loop(key_of(direction, transition, arguments, memory)).run(steps);
}

}  // namespace

template <class T>
void rollout_forward(const Transition<T>& transition, RolloutWay way, const RolloutArguments<T>& arguments,
                     const RolloutMemory<T>& memory, RolloutRecords& records) {
  rollout(Direction::forward, transition, way, arguments, memory, records);
}

template <class T>
void rollout_backward(const Transition<T>& transition, RolloutWay way, const RolloutArguments<T>& arguments,
                      const RolloutMemory<T>& memory, RolloutRecords& records) {
  rollout(Direction::backward, transition, way, arguments, memory, records);
}

#define ORTHORNN_INSTANTIATE(T)                                                                   \
  template void rollout_forward<T>(const Transition<T>&, RolloutWay, const RolloutArguments<T>&,  \
                                   const RolloutMemory<T>&, RolloutRecords&);                     \
  template void rollout_backward<T>(const Transition<T>&, RolloutWay, const RolloutArguments<T>&, \
                                    const RolloutMemory<T>&, RolloutRecords&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
