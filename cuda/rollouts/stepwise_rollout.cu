#include "cuda/core/for_each.cuh"
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

/// Number i of a product, its parts added in their order; 0 where the step has it already.
template <class T>
__device__ __forceinline__ T sum_of(const ProductParts<T>& product, const RolloutArguments<T>& arguments,
                                    Index i) {
  T sum = 0;
#pragma unroll 8
  for (Index p = 0; p < product.count; ++p)
    sum += product.parts[p * arguments.batch * arguments.hidden_size + i];
  return sum;
}

}  // namespace

template <class T>
ProductParts<T> product_in_parts(const RolloutArguments<T>& arguments, const Operand<T>& q,
                                 MatrixView<const T> x, Index parts, Precision precision) {
  T* const to =
      context(arguments.device).template scratch<T>(static_cast<std::size_t>(parts * x.rows * x.cols));
  gemm_in_parts(q, Operand<T>(x), parts, to, precision);
  return {.parts = to, .count = parts};
}

template <class T>
void start_forward(const RolloutArguments<T>& arguments) {
  for_each_element(arguments,
                   [=] __device__(Index i) { element<Direction::forward>(arguments, i).start(arguments); });
}

template <Direction direction, class T>
void finish_step(const RolloutArguments<T>& arguments, Index t, const ProductParts<T>& product) {
  for_each_element(arguments, [=] __device__(Index i) {
    const auto x = element<direction>(arguments, i);
    const StepPlace place = place_of_step(arguments, t);
    const auto input = load_input(x, arguments, t, place);
    const T sum = sum_of(product, arguments, i);
    x.keep(arguments, t, place, sum, input, x.value(arguments, t, sum, input));
  });
}

template <class T>
void end_backward(const RolloutArguments<T>& arguments, const ProductParts<T>& product) {
  for_each_element(arguments, [=] __device__(Index i) {
    const T sum = product.count > 0 ? sum_of(product, arguments, i) : arguments.d_h_0[i];
    element<Direction::backward>(arguments, i).end(arguments, sum);
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                               \
  template ProductParts<T> product_in_parts<T>(const RolloutArguments<T>&, const Operand<T>&, \
                                               MatrixView<const T>, Index, Precision);        \
  template void start_forward<T>(const RolloutArguments<T>&);                                 \
  template void finish_step<Direction::forward, T>(const RolloutArguments<T>&, Index,         \
                                                   const ProductParts<T>&);                   \
  template void finish_step<Direction::backward, T>(const RolloutArguments<T>&, Index,        \
                                                    const ProductParts<T>&);                  \
  template void end_backward<T>(const RolloutArguments<T>&, const ProductParts<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
