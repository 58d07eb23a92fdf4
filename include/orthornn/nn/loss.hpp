#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/nn/options.hpp"

namespace orthornn {

/// A loss of a batch, as the sum over all targets that count and their number. Sums and gradients of the
/// parts of a batch add up to those of the whole. On a GPU it lies there as two doubles, in this order.
struct BatchLoss {
  /// Sum of the losses of all targets that count, each times its weight.
  double sum = 0;
  /// Number of targets that count; where targets have weights, the sum of these.
  double count = 0;

  /// Mean loss of a target, sum / count. Throws ValueError when no target counts.
  double mean() const;
};

/// Computes the softmax cross-entropy -log softmax(outputs)[class], summed over all targets that count, and
/// its gradient. Sums are in double, in a fixed order.
///
/// - outputs [.., C]: on return, where `gradient` is true, the gradient of the *sum* with respect to them.
/// - classes [..]: targets 0 to C - 1; a negative class does not count.
/// - lengths: empty, or [B] where outputs are [T, B, C]. From step length on a sequence is padding, which
///   does not count: its targets are not read, and its gradient is 0.
///
/// With label smoothing (Szegedy et al., CVPR 2016), `smoothing` e, the gradient is that of
/// (1 - e) (-log p[class]) + e (mean over all classes c of -log p[c]), p = softmax(outputs). The value stays
/// -log p[class], whose mean is the logarithm of the perplexity.
///
/// With `weights`, of the shape of the classes, the loss and the gradient of a target are multiplied by its
/// weight, and the sum of the weights takes the place of the number of targets. A target of weight 0 does not
/// count and is not read. Weights are finite and not negative, which is not checked.
///
/// Throws ShapeError, and ValueError for a class >= C, for smoothing outside [0, 1), and for weights on
/// another device than the outputs. Waits for a GPU.
template <class T>
BatchLoss softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                                TensorView<const std::int32_t> lengths = {}, bool gradient = true,
                                double smoothing = 0, TensorView<const float> weights = {});
/// Computes the softmax cross-entropy and its gradient, and writes the BatchLoss to `value` [2], on the
/// device of the outputs, so that nothing waits for a GPU. Where a class is not allowed, a GPU writes NaN,
/// and the next call that waits throws the ValueError.
template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                           double smoothing = 0, TensorView<const float> weights = {});

/// Computes the squared error (outputs - values)^2, summed over all targets that count, and its gradient.
/// Each entry of `values` [.., C] is a target, so the mean of the sum is the mean squared error. Outputs,
/// lengths and `gradient` are as in `softmax_cross_entropy`, and so are `weights`, of the shape of the
/// values. Throws ShapeError, and ValueError for weights on another device. Waits for a GPU.
template <class T>
BatchLoss mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                             TensorView<const std::int32_t> lengths = {}, bool gradient = true,
                             TensorView<const float> weights = {});
/// Computes the squared error and its gradient, and writes the BatchLoss to `value` [2], on the device of the
/// outputs, so that nothing waits for a GPU. Throws ShapeError, and ValueError for weights on another device.
template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                        TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                        TensorView<const float> weights = {});

/// Computes |outputs - values| + (outputs - values)^2, summed over all targets that count, and its gradient,
/// as `mean_squared_error`. The absolute difference has the derivative 0 where it is 0. Waits for a GPU.
template <class T>
BatchLoss absolute_and_squared_error(TensorView<T> outputs, TensorView<const float> values,
                                     TensorView<const std::int32_t> lengths = {}, bool gradient = true,
                                     TensorView<const float> weights = {});
/// Computes the absolute and the squared error and their gradient, and writes the BatchLoss to `value` [2],
/// on the device of the outputs, so that nothing waits for a GPU. Throws ShapeError, and ValueError for
/// weights on another device.
template <class T>
void absolute_and_squared_error(TensorView<T> outputs, TensorView<const float> values,
                                TensorView<const std::int32_t> lengths, TensorView<double> value,
                                bool gradient, TensorView<const float> weights = {});

}  // namespace orthornn
