#pragma once

#include "cuda/rollouts/rollout_arguments.hpp"
#include "orthornn/core/precision.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// The product of a step's transition as a sum: `count` matrices [B, N] one after another. None where the
/// product was added to what the step reads.
template <class T>
struct ProductParts {
  const T* parts = nullptr;
  Index count = 0;
};

/// q x of [N, N] and [N, B], in scratch memory.
template <class T>
ProductParts<T> product_in_parts(const RolloutArguments<T>& arguments, const Operand<T>& q,
                                 MatrixView<const T> x, Index parts, Precision precision);

/// What a step is besides the transition's product, over all of B N at once.

/// h_last where a sequence has no step at all; before the first step forward.
template <class T>
void start_forward(const RolloutArguments<T>& arguments);
/// Forward, output t from its argument; backward, g of step t from what arrives.
template <Direction direction, class T>
void finish_step(const RolloutArguments<T>& arguments, Index t, const ProductParts<T>& product);
/// d_h_0 from the product of the first step; after the last step backward. d_h_0 has the product that is not
/// in parts.
template <class T>
void end_backward(const RolloutArguments<T>& arguments, const ProductParts<T>& product);

}  // namespace orthornn::cuda
