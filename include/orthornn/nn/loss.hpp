#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/nn/options.hpp"

namespace orthornn {

/// A loss of a batch: the sum over all targets that count, and their number. Sums and gradients of the parts
/// of a batch add up to those of the whole. On a GPU it lies there as two doubles, in this order.
struct BatchLoss {
  double sum = 0;
  double count = 0;

  /// Throws ValueError when nothing counts.
  double mean() const;
};

// Both functions give value and gradient in one call, and sum in double, in an order of their own.
//
// outputs   [.., C]; on return, unless `gradient` is false, the gradient of the *sum* with respect to them
// lengths   empty, or [B] where outputs are [T, B, C]: from step length on a sequence is padding, which does
//           not count. Its targets are not read, and its gradient is 0.
//
// They throw ShapeError. The variants with `value` [2] leave a BatchLoss there, on the device of the outputs,
// so that nothing waits for a GPU. What the CPU throws of the batch's contents is NaN there, and is thrown by
// the next call that waits.

/// -log softmax(outputs)[class] for classes [..]; a negative class does not count. Throws ValueError also for
/// a class >= C, and for smoothing outside [0, 1).
///
/// Label smoothing (Szegedy et al., CVPR 2016): with `smoothing` e the gradient is that of
/// (1 - e) (-log p[class]) + e (mean over all classes c of -log p[c]), p = softmax(outputs). The value stays
/// -log p[class], whose mean is the logarithm of the perplexity.
template <class T>
BatchLoss softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                                TensorView<const std::int32_t> lengths = {}, bool gradient = true,
                                double smoothing = 0);
template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                           double smoothing = 0);

/// (outputs - values)^2 for values [.., C]; each entry is a target. A sum, whose mean is the mean squared
/// error.
template <class T>
BatchLoss mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                             TensorView<const std::int32_t> lengths = {}, bool gradient = true);
template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                        TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient);

}  // namespace orthornn
