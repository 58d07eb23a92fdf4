#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// What an update reads and changes: flat buffers of one size, in device memory.
template <class T>
struct FlatUpdate {
  /// The ParameterKind of each number. Points of Stiefel manifolds stay as they are.
  TensorView<const std::uint8_t> kinds;
  /// [1], by which gradients are multiplied, or empty.
  TensorView<const double> gradient_scale;
  /// [1], or empty. Nothing changes where it is not 0.
  TensorView<const std::int64_t> halted;
  T* values;
  const T* gradients;
};

/// Changes values, and moments as many as the rule is called with, by gradients: one kernel over the flat
/// buffers.
template <class T, class Rule, class... Moments>
void update(const FlatUpdate<T>& flat, const Rule& ordinary, const Rule& orthogonal, Moments*... moments);

}  // namespace orthornn::cuda
