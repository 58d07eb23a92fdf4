#include "cuda/core/for_each.cuh"
#include "cuda/linalg/elementwise.hpp"
#include "cuda/linalg/gemm.hpp"
#include "cuda/rollouts/rollout_element.cuh"
#include "cuda/rollouts/stepwise_rollout.hpp"

namespace orthornn::cuda {
namespace {

template <class T>
void for_each_element(const RolloutArguments<T>& arguments, auto body) {
  for_each(context(arguments.device), arguments.batch * arguments.hidden_size, body);
}

template <Direction direction, class T>
__device__ RolloutElement<T, direction, Index> element(const RolloutArguments<T>& arguments, Index i) {
  return {arguments, i % arguments.hidden_size, i / arguments.hidden_size};
}

/// Where number i of B N lies in a matrix of the steps.
template <class T>
__device__ __forceinline__ Index place_in(const DenseSteps<T>& steps, const RolloutArguments<T>& arguments,
                                          Index i) {
  return i / arguments.hidden_size * steps.q.rows + i % arguments.hidden_size;
}

/// Number i of a product, its parts added in their order; 0 where the step has it already.
template <class T>
__device__ __forceinline__ T sum_of(const DenseSteps<T>& steps, const RolloutArguments<T>& arguments,
                                    Index i) {
  T sum = 0;
  if (!steps.has_product) return sum;
  const T* part = steps.product + place_in(steps, arguments, i);
#pragma unroll 8
  for (Index p = 0; p < steps.parts; ++p) sum += part[p * arguments.batch * steps.q.rows];
  return sum;
}

}  // namespace

template <class T>
DenseSteps<T> dense_steps(const RolloutArguments<T>& arguments, MatrixView<const T> q, Index rows,
                          Index parts, const T* first) {
  const Device device = arguments.device;
  const Index columns = arguments.batch, n = q.rows;
  const bool copies = rows > n;
  const Index copied = copies ? rows * (rows + columns) : 0;
  T* const memory =
      context(device).template scratch<T>(static_cast<std::size_t>(copied + parts * rows * columns));
  DenseSteps<T> steps{.q = q, .parts = parts, .product = memory + copied};
  if (copies) {
    // Zeros beyond N, because infinite numbers there would reach others in the product.
    set_zero(MatrixView<T>(memory, rows, rows + columns, rows, device));
    copy_matrix<T>(q, {memory, n, n, rows, device});
    steps.q = MatrixView<const T>(memory, rows, rows, rows, device);
    steps.state = memory + rows * rows;
    if (first != nullptr)
      copy_matrix<T>({first, n, columns, n, device}, {steps.state, n, columns, rows, device});
  }
  return steps;
}

template <class T>
void multiply(DenseSteps<T>& steps, bool transposes, MatrixView<const T> x, Precision precision) {
  if (steps.state != nullptr) x = {steps.state, steps.q.rows, x.cols, steps.q.rows, x.device};
  gemm_in_parts(Operand<T>(steps.q, transposes), Operand<T>(x), steps.parts, steps.product, precision);
  steps.has_product = true;
}

template <class T>
void start_forward(const RolloutArguments<T>& arguments) {
  for_each_element(arguments,
                   [=] __device__(Index i) { element<Direction::forward>(arguments, i).start(arguments); });
}

template <Direction direction, class T>
void finish_step(const RolloutArguments<T>& arguments, Index t, const DenseSteps<T>& steps) {
  for_each_element(arguments, [=] __device__(Index i) {
    const auto x = element<direction>(arguments, i);
    const StepPlace place = place_of_step(arguments, t);
    const auto input = load_input(x, arguments, t, place);
    const T sum = sum_of(steps, arguments, i);
    const T value = x.value(arguments, t, sum, input);
    x.keep(arguments, t, place, sum, input, value);
    if (steps.state != nullptr) steps.state[place_in(steps, arguments, i)] = value;
  });
}

template <class T>
void end_backward(const RolloutArguments<T>& arguments, const DenseSteps<T>& steps) {
  for_each_element(arguments, [=] __device__(Index i) {
    const T sum = steps.has_product ? sum_of(steps, arguments, i) : arguments.d_h_0[i];
    element<Direction::backward>(arguments, i).end(arguments, sum);
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                              \
  template DenseSteps<T> dense_steps<T>(const RolloutArguments<T>&, MatrixView<const T>, Index, Index,       \
                                        const T*);                                                           \
  template void multiply<T>(DenseSteps<T>&, bool, MatrixView<const T>, Precision);                           \
  template void start_forward<T>(const RolloutArguments<T>&);                                                \
  template void finish_step<Direction::forward, T>(const RolloutArguments<T>&, Index, const DenseSteps<T>&); \
  template void finish_step<Direction::backward, T>(const RolloutArguments<T>&, Index,                       \
                                                    const DenseSteps<T>&);                                   \
  template void end_backward<T>(const RolloutArguments<T>&, const DenseSteps<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
