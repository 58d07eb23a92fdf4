#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/nn/options.hpp"

namespace orthornn {

/// What a loss function finds in a batch. On a GPU it lies there as two doubles, in this order.
struct BatchLoss {
  /// Mean over the targets that count.
  double mean = 0;
  /// How many count: the weight of the batch in a mean over several.
  double count = 0;
};

// Both functions give value and gradient in one call, and sum in double, in an order of their own.
//
// outputs   [.., C]; on return, unless `gradient` is false, the gradient of the mean with respect to them
// lengths   empty, or [B] where outputs are [T, B, C]: from step length on a sequence is padding, which does
//           not count. Its targets are not read, and its gradient is 0.
//
// They throw ShapeError, and ValueError when nothing counts. The variants with `value` [2] leave a BatchLoss
// there, on the device of the outputs, so that nothing waits for a GPU. What is thrown on the CPU gives NaN
// there, and is thrown when somebody waits.

/// -log softmax(outputs)[class] for classes [..]; a negative class does not count. Throws ValueError also for
/// a class >= C.
template <class T>
BatchLoss softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                                TensorView<const std::int32_t> lengths = {}, bool gradient = true);
template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient);

/// (outputs - values)^2 for values [.., C]; each entry is a target.
template <class T>
BatchLoss mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                             TensorView<const std::int32_t> lengths = {}, bool gradient = true);
template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                        TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient);

}  // namespace orthornn
