#include "rollouts/gpu_rollout.hpp"

#include <cstdint>
#include <type_traits>

#include "core/back_end.hpp"
#include "core/set_zero.hpp"
#include "cuda/products/grid_plan.hpp"
#include "cuda/rollouts/given_gradients.hpp"
#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "cuda/rollouts/stepwise_rollout.hpp"
#include "products/plan.hpp"

namespace orthornn {
namespace {

using cuda::Direction;
using cuda::RolloutArguments;

template <class T>
MatrixView<T> columns_at(T* data, Index t, const RolloutArguments<std::remove_const_t<T>>& arguments) {
  const Index n = arguments.hidden_size;
  return {data + t * arguments.batch * n, n, arguments.batch, n, arguments.device};
}

template <class T>
MatrixView<T> coefficients_at(TensorView<T> coefficients, Index t, const Transition<T>& transition,
                              const RolloutArguments<T>& arguments) {
  const Index count = transition.coefficient_count();
  return {coefficients.data() + t * arguments.batch * count, count, arguments.batch, count, arguments.device};
}

/// Rows of the operands of a step's product with a dense Q: N, or more where copies are multiplied whose
/// columns begin at multiples of 16 bytes. For other columns cuBLAS has kernels of half the speed, if they
/// round: a step of tf32 took 68 us with N = 3584 on an H200, and 123 us with 3585. Few steps do not pay for
/// a copy of Q.
template <class T>
Index rows_of_product(const Transition<T>& transition, const RolloutArguments<T>& arguments) {
  constexpr Index grain = 16 / sizeof(T), fewest_rows = 256, fewest_steps = 8;
  const Index n = arguments.hidden_size;
  const bool rounds = std::is_same_v<T, float> && transition.execution().precision != Precision::fp32;
  const bool copies = rounds && n >= fewest_rows && arguments.length >= fewest_steps;
  return copies ? (n + grain - 1) / grain * grain : n;
}

/// Parts of a step's product with a dense Q: enough for its tiles to fill a large GPU, whatever this machine
/// has, so that the order of the sums is the same on all. 1 for no parts. N = 1024 and B = 128 took 8.6 us a
/// step on an H200 in eight parts, and 10.1 us with the parts of cuBLAS. Two parts are slower for large
/// matrices: 76 and 55 us with N = 2304 in fp32 (tools/bench-results/h200-step-parts.csv).
constexpr Index parts_of_product(Index rows, Index batch) {
  // 64 x 128 numbers are a tile of cuBLAS. Shorter sums than 128 cost more in what they write.
  constexpr Index tile_rows = 64, tile_columns = 128, most_tiles = 128, shortest = 128;
  constexpr Index fewest = 4, large = 1024;
  const Index tiles = ((rows + tile_rows - 1) / tile_rows) * ((batch + tile_columns - 1) / tile_columns);
  Index parts = 1;
  while (2 * parts * tiles <= most_tiles && rows % (2 * parts * shortest) == 0) parts *= 2;
  return parts < fewest && rows > large ? 1 : parts;
}

/// Products with the transition of one step after another. `first` is the state that is multiplied first,
/// unless a step makes it.
template <class T>
class StepProducts {
 public:
  StepProducts(const Transition<T>& transition, const RolloutArguments<T>& arguments, const T* first)
      : transition_(transition) {
    const MatrixView<const T> q = transition.dense_matrix();
    if (q.data == nullptr) return;
    const Index rows = rows_of_product(transition, arguments);
    const Index parts = parts_of_product(rows, arguments.batch);
    if (parts > 1 || rows > arguments.hidden_size)
      steps_ = cuda::dense_steps(arguments, q, rows, parts, first);
  }

  /// What `finish_step` reads: the product of the call before; nothing before the first call.
  const cuda::DenseSteps<T>& steps() const { return steps_; }

  void forward(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> coefficients) {
    if (steps_.parts == 0) return transition_.multiply_add(h, a, coefficients);
    cuda::multiply(steps_, true, h, transition_.execution().precision);
  }
  void backward(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> coefficients) {
    if (steps_.parts == 0) return transition_.multiply_add_transposed(g, d, coefficients);
    cuda::multiply(steps_, false, g, transition_.execution().precision);
  }

 private:
  const Transition<T>& transition_;
  cuda::DenseSteps<T> steps_;
};

/// Products of single steps are added to what lies in their place: copies what is read to where the results
/// go, and reads it there.
template <class T>
void work_in_place(const T*& from, T* to, const RolloutArguments<T>& arguments) {
  if (from == to) return;
  const Shape steps{arguments.length, arguments.batch, arguments.hidden_size};
  copy<T>({from, steps, arguments.device}, {to, steps, arguments.device});
  from = to;
}

template <class T>
void step_forward(const Transition<T>& transition, RolloutArguments<T> arguments,
                  const RolloutMemory<T>& memory) {
  work_in_place(arguments.inputs, arguments.outputs, arguments);
  cuda::start_forward(arguments);
  StepProducts<T> products(transition, arguments, arguments.h_0);
  MatrixView<const T> previous = columns_at(arguments.h_0, 0, arguments);
  for (Index t = 0; t < arguments.length; ++t) {
    const MatrixView<T> h = columns_at(arguments.outputs, t, arguments);
    products.forward(previous, h, coefficients_at(memory.z, t, transition, arguments));
    cuda::finish_step<Direction::forward>(arguments, t, products.steps());
    previous = h;
  }
}

template <class T>
void step_backward(const Transition<T>& transition, RolloutArguments<T> arguments,
                   const RolloutMemory<T>& memory) {
  arguments = cuda::with_given_gradients(arguments);
  work_in_place(arguments.d_outputs, arguments.d_inputs, arguments);
  StepProducts<T> products(transition, arguments, nullptr);
  set_zero(TensorView<T>(arguments.d_h_0, {arguments.batch, arguments.hidden_size}, arguments.device));
  for (Index t = arguments.length - 1; t >= 0; --t) {
    cuda::finish_step<Direction::backward>(arguments, t, products.steps());
    products.backward(
        columns_at(arguments.d_inputs, t, arguments),
        t > 0 ? columns_at(arguments.d_inputs, t - 1, arguments) : columns_at(arguments.d_h_0, 0, arguments),
        coefficients_at(memory.y, t, transition, arguments));
  }
  cuda::end_backward(arguments, products.steps());
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
          key_of(a.h_0),
          key_of(a.inputs),
          key_of(a.outputs),
          key_of(a.h_last),
          key_of(a.d_h_last),
          key_of(a.d_outputs),
          key_of(a.d_inputs),
          key_of(a.d_h_0),
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
      if (way == RolloutWay::grid) {
        if (goes_as_few_over_grid(arguments.hidden_size, arguments.batch, transition.execution()))
          return cuda::few_over_grid_rollout(direction, arguments, q);
        const auto plan = cuda::grid_plan({.device = arguments.device,
                                           .batch = arguments.batch,
                                           .hidden_size = arguments.hidden_size,
                                           .precision = transition.execution().precision});
        return cuda::grid_rollout(direction, arguments, q, plan.value());
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
