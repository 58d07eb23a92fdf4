#pragma once

#include <limits>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Norm of a gradient, and the factor that an update multiplies the gradient by.
struct GradientScale {
  /// Euclidean norm of the mean gradient, before clipping.
  double norm = 0;
  /// Factor 1 / count, or less where the norm is above `max_norm`.
  double factor = 1;
};

/// Computes the scale from the norm of the gradient of a sum over `count` targets: the formula of
/// `gradient_scale`.
constexpr GradientScale scale_of(double norm_of_sum, double count, double max_norm) {
  const double norm = norm_of_sum / count;
  const bool too_long = max_norm > 0 && norm > max_norm && norm < std::numeric_limits<double>::infinity();
  return {.norm = norm, .factor = (too_long ? max_norm / norm : 1) / count};
}

/// Computes the scale by which the gradient of a sum over `count` targets becomes the gradient of their mean,
/// and is shortened to `max_norm` where it is longer (clipping by global norm: Pascanu, Mikolov and Bengio,
/// "On the difficulty of training recurrent neural networks", ICML 2013, algorithm 1).
///
/// `gradients` is the gradient of the sum, in any shape, usually the flat buffer of a ParameterSet; it is
/// only read. A `max_norm` of 0 is no limit. Where the norm is not finite, nothing is shortened: the caller
/// must stop. Squares are summed in double in a fixed order, so the result does not depend on the number of
/// threads. Throws ValueError for a negative max_norm or NaN. On a GPU it waits for the result.
template <class T>
GradientScale gradient_scale(ConstTensorView<T> gradients, double count, double max_norm);
/// Computes the scale from a BatchLoss `loss` [2] and writes norm and factor to `scale` [2]. The tensors lie
/// on the device of the gradients, so that nothing waits for a GPU. A count of 0 makes both results NaN.
/// Throws ShapeError, DeviceError, and ValueError for a negative max_norm or NaN.
template <class T>
void gradient_scale(ConstTensorView<T> gradients, TensorView<const double> loss, double max_norm,
                    TensorView<double> scale);

}  // namespace orthornn
