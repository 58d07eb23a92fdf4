#pragma once

#include "cuda/rollouts/rollout_arguments.hpp"
#include "orthornn/core/precision.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// Products of single steps with a dense Q: a step's product is a sum of `parts` matrices [B, R], one after
/// another. Without parts, a product is added to what the step reads.
///
/// R is N, or more. Then `q` is a copy of Q, and `state` has a copy of what was multiplied last, both with
/// zeros beyond N. All lies in scratch memory, so nothing else may take that until the rollout has ended.
template <class T>
struct DenseSteps {
  MatrixView<const T> q;  ///< [R, R]
  Index parts = 0;
  T* product = nullptr;      ///< [parts, B, R]
  bool has_product = false;  ///< false before the first product
  T* state = nullptr;        ///< [B, R]; null where products read states where they lie
};

/// For Q [N, N] and R = `rows`. `first` is the state that is multiplied first, unless `finish_step` makes it.
template <class T>
DenseSteps<T> dense_steps(const RolloutArguments<T>& arguments, MatrixView<const T> q, Index rows,
                          Index parts, const T* first);
/// The product of Q, or of its transpose, and x [B, N], or the copy that the steps have in its place.
template <class T>
void multiply(DenseSteps<T>& steps, bool transposes, MatrixView<const T> x, Precision precision);

/// What a step is besides the transition's product, over all of B N at once.

/// h_last where a sequence has no step at all; before the first step forward.
template <class T>
void start_forward(const RolloutArguments<T>& arguments);
/// Forward, output t from its argument; backward, g of step t from what arrives.
template <Direction direction, class T>
void finish_step(const RolloutArguments<T>& arguments, Index t, const DenseSteps<T>& steps);
/// d_h_0 from the product of the first step; after the last step backward. d_h_0 has the product that is not
/// in parts.
template <class T>
void end_backward(const RolloutArguments<T>& arguments, const DenseSteps<T>& steps);

}  // namespace orthornn::cuda
