#include "orthornn/rollouts/applied_matrix.hpp"

#include <algorithm>

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
  // 1. h_0 holds the unit vectors, and a_1 is 0, so row b of h_1 is A e_b. As many sequences at a time as a
  // batch has: with more, another way through time might be taken, which rounds Q in another way.
  const TensorView<T> units = step_->states.view()[0], columns = step_->states.view()[1];
  set_zero(step_->states.view());
  add_to_diagonal<T>(columns_of(units), 1);
  const Index most = std::max<Index>(1, transition.execution().expected_batch);
  for (Index first = 0; first < n; first += most) {
    const Index count = std::min(most, n - first);
    const TensorView<T> one_step(columns.slice(first, count).data(), {1, count, n}, device);
    rollout_forward<T>(transition, Activation::identity, {}, {},
                       {.h_0 = units.slice(first, count),
                        .inputs = one_step,
                        .outputs = one_step,
                        .h_last = step_->last.view().slice(first, count)},
                       step_->cache);
  }
  // 2. A in C order, in place of the unit vectors.
  copy_transposed<T>(columns_of(columns), columns_of(units));
  return units;
}

template class AppliedMatrix<float>;
template class AppliedMatrix<double>;

}  // namespace orthornn
