#pragma once

#include <limits>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// What an update multiplies gradients by.
struct GradientScale {
  /// Euclidean norm of the mean gradient.
  double norm = 0;
  /// 1 / count, or less where the norm is above the largest that was asked for.
  double factor = 1;
};

/// From the norm of the gradients of a sum over `count` targets: the formula of `gradient_scale`.
constexpr GradientScale scale_of(double norm_of_sum, double count, double max_norm) {
  const double norm = norm_of_sum / count;
  const bool too_long = max_norm > 0 && norm > max_norm && norm < std::numeric_limits<double>::infinity();
  return {.norm = norm, .factor = (too_long ? max_norm / norm : 1) / count};
}

/// The scale that makes the gradient of a sum over `count` targets that of their mean, and shortens it to
/// `max_norm` where it is longer (clipping by global norm: Pascanu, Mikolov and Bengio, "On the difficulty of
/// training recurrent neural networks", ICML 2013, algorithm 1).
///
/// gradients: of the sum, any shape, usually the flat buffer of a ParameterSet; they are only read. max_norm
/// 0 is no limit. Where the norm is not finite, nothing is shortened: the caller must stop. Summed in
/// double in a fixed order, so the result does not depend on the number of threads; allocates nothing on the
/// CPU. Throws ValueError for a negative max_norm or NaN.
template <class T>
GradientScale gradient_scale(ConstTensorView<T> gradients, double count, double max_norm);
/// The same from a BatchLoss `loss` [2] to `scale` [2], norm and factor, all on the device of the gradients,
/// so that nothing waits for a GPU. A count of 0 makes both NaN.
template <class T>
void gradient_scale(ConstTensorView<T> gradients, TensorView<const double> loss, double max_norm,
                    TensorView<double> scale);

}  // namespace orthornn
