#pragma once

#include "core/back_end.hpp"
#include "cuda/layers/last_states.hpp"
#include "linalg/elementwise.hpp"

namespace orthornn {

/// What arrives at the last state of a sequence without a step arrives at its first: to [B, N] += from [B, N]
/// for sequences of length 0.
template <class T>
void add_where_empty(TensorView<const std::int32_t> lengths, TensorView<const T> from, TensorView<T> to) {
  if (lengths.empty() || from.empty()) return;
  if constexpr (has_cuda_bodies) {
    if (to.device().is_cuda()) return cuda::add_where_empty<T>(lengths, from, to);
  }
  for (Index b = 0; b < to.shape()[0]; ++b) {
    if (lengths(b) == 0) add<T>(columns_of(from[b]), columns_of(to[b]));
  }
}

}  // namespace orthornn
