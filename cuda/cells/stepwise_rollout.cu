#include "cuda/cells/rollout_element.cuh"
#include "cuda/cells/stepwise_rollout.hpp"
#include "cuda/core/for_each.cuh"

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

}  // namespace

template <class T>
void start_forward(const RolloutArguments<T>& arguments) {
  for_each_element(arguments,
                   [=] __device__(Index i) { element<Direction::forward>(arguments, i).start(arguments); });
}

// Where it is finished, the argument already has its product.

template <class T>
void finish_forward_step(const RolloutArguments<T>& arguments, Index t) {
  for_each_element(arguments, [=] __device__(Index i) {
    const auto h = element<Direction::forward>(arguments, i);
    const StepPlace<T, Direction::forward> place(arguments, t);
    const auto input = load_input(h, arguments, t, place);
    h.keep(arguments, t, place, T{0}, input, h.value(arguments, t, T{0}, input));
  });
}

template <class T>
void finish_backward_step(const RolloutArguments<T>& arguments, Index t) {
  for_each_element(arguments, [=] __device__(Index i) {
    const auto g = element<Direction::backward>(arguments, i);
    const StepPlace<T, Direction::backward> place(arguments, t);
    const auto input = load_input(g, arguments, t, place);
    g.keep(arguments, t, place, T{0}, input, g.value(arguments, t, T{0}, input));
  });
}

template <class T>
void end_backward(const RolloutArguments<T>& arguments) {
  for_each_element(arguments, [=] __device__(Index i) {
    element<Direction::backward>(arguments, i).end(arguments, arguments.d_h0[i]);
  });
}

#define ORTHORNN_INSTANTIATE(T)                                             \
  template void start_forward<T>(const RolloutArguments<T>&);               \
  template void finish_forward_step<T>(const RolloutArguments<T>&, Index);  \
  template void finish_backward_step<T>(const RolloutArguments<T>&, Index); \
  template void end_backward<T>(const RolloutArguments<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
