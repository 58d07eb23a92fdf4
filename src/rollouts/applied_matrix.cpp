#include "orthornn/rollouts/applied_matrix.hpp"

#include "core/set_zero.hpp"
#include "linalg/elementwise.hpp"

namespace orthornn {

template <class T>
TensorView<const T> AppliedMatrix<T>::of(const Transition<T>& transition) {
  const Index n = transition.hidden_size();
  const Device device = transition.device();
  if (!step_ || !(step_->last.device() == device)) {
    step_.emplace(
        Step{.states = Tensor<T>(Shape{0}, device), .last = Tensor<T>(Shape{0}, device), .cache = {}});
  }
  step_->states.reserve({2, n, n});
  step_->last.reserve({n, n});
  // 1. h_0 holds the unit vectors, and a_1 is 0, so row b of h_1 is A e_b.
  const TensorView<T> units = step_->states.view()[0], columns = step_->states.view()[1];
  set_zero(step_->states.view());
  add_to_diagonal<T>(columns_of(units), 1);
  const TensorView<T> first_step = step_->states.view().slice(1, 1);
  rollout_forward<T>(transition, Activation::identity, {}, {},
                     {.h_0 = units, .inputs = first_step, .outputs = first_step, .h_last = step_->last},
                     step_->cache);
  // 2. A in C order, in place of the unit vectors.
  copy_transposed<T>(columns_of(columns), columns_of(units));
  return units;
}

template class AppliedMatrix<float>;
template class AppliedMatrix<double>;

}  // namespace orthornn
