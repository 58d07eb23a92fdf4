#pragma once

#include <optional>

#include "orthornn/rollouts/rollout.hpp"

namespace orthornn {

/// The matrix A [N, N] by which a step of a rollout multiplies the state: Q as the precision and the way of
/// the rollout round it. In fp32 it is Q up to rounding errors; in tf32 and bf16 it is less exact. The
/// rollout itself computes it, as one linear step from N unit vectors.
template <class T>
class AppliedMatrix {
 public:
  /// Computes A [N, N] of a transition as it was prepared last, on the transition's device. The view is valid
  /// until the next call. Allocates nothing after the first call for a size. Throws as `rollout_way`, and
  /// ValueError for a transition that is not prepared.
  TensorView<const T> of(const Transition<T>& transition);

 private:
  struct Step {
    Tensor<T> states;
    Tensor<T> last;
    RolloutCache<T> cache;
  };
  std::optional<Step> step_;
};

extern template class AppliedMatrix<float>;
extern template class AppliedMatrix<double>;

}  // namespace orthornn
