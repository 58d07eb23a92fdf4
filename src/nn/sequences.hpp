#pragma once
// Copies between sequences and their steps, on any device. Lengths are [B], or empty where all sequences have
// T steps.

#include <cstdint>

#include "core/for_each.hpp"
#include "core/live_steps.hpp"
#include "orthornn/core/tensor.hpp"
#include "pointwise/sequences.hpp"

namespace orthornn {

/// to [L, R, N] <- from [L, B, N]: sequence r of `to` is sequence rows[r] of `from`, 0 .. B - 1.
template <class U>
void gather_sequences(TensorView<const U> from, TensorView<const std::int32_t> rows, TensorView<U> to) {
  const Index count = to.shape()[1], size = to.shape()[2];
  for_each_entry(
      to.device(), size, to.shape()[0] * count,
      pointwise::GatherSequences<U>{from.data(), rows.data(), to.data(), from.shape()[1], count, size});
}

/// to [B, N] <- the outputs [T, B, N] at the last live step of each sequence; 0 for one without a step.
template <class T>
void gather_last(TensorView<const T> outputs, TensorView<const std::int32_t> lengths, TensorView<T> to) {
  const Index batch = to.shape()[0], size = to.shape()[1];
  for_each_entry(
      to.device(), size, batch,
      pointwise::GatherLast<T>{outputs.data(), or_null(lengths), to.data(), outputs.shape()[0], batch, size});
}

/// to [T, B, N] <- from [B, N] at the last live step of each sequence, 0 elsewhere: the backward of
/// `gather_last`.
template <class T>
void scatter_last(TensorView<const T> from, TensorView<const std::int32_t> lengths, TensorView<T> to) {
  const Index length = to.shape()[0], batch = to.shape()[1], size = to.shape()[2];
  for_each_entry(to.device(), size, length * batch,
                 pointwise::ScatterLast<T>{from.data(), or_null(lengths), to.data(), length, batch, size});
}

/// to [T, B] <- the classes [T, B], and -1 from step lengths[b] on.
inline void copy_live_classes(TensorView<const std::int32_t> classes, TensorView<const std::int32_t> lengths,
                              TensorView<std::int32_t> to) {
  const Index length = to.shape()[0], batch = to.shape()[1];
  for_each_entry(to.device(), batch, length,
                 pointwise::CopyLiveClasses{classes.data(), or_null(lengths), to.data(), length, batch});
}

/// x [T, B, K] <- features. Padding is set to zero: a NaN there would reach the gradient of the weights.
template <class T>
void copy_features(TensorView<const float> features, TensorView<const std::int32_t> lengths,
                   TensorView<T> x) {
  const Index length = x.shape()[0], batch = x.shape()[1], size = x.shape()[2];
  // Lengths of another shape are refused later.
  const std::int32_t* live = lengths.size() == batch ? or_null(lengths) : nullptr;
  for_each_entry(x.device(), size, length * batch,
                 pointwise::CopyFeatures<T>{features.data(), live, x.data(), length, batch, size});
}

}  // namespace orthornn
