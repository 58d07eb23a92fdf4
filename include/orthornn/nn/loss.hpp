#pragma once

#include <string>

#include "orthornn/core/tensor.hpp"
#include "orthornn/nn/options.hpp"

namespace orthornn {

std::string name_of(Loss loss);
/// Throws ValueError naming the known ones.
Loss parse_loss(const std::string& name);

/// Mean of -log softmax(outputs)[class] over the targets that count (class >= 0), value and gradient in one
/// call. Sums run in double, in an order of their own.
///
/// outputs [.., C]; on return, unless `gradient` is false, the gradient with respect to them
/// classes [..]; negative: not counted. Throws ValueError for a class >= C, or when nothing counts.
template <class T>
double softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                             bool gradient = true);
/// The same with the value left in `value` [1] on the device of the outputs, so that nothing waits for a GPU.
/// What is thrown on the CPU gives NaN there, and is thrown when somebody waits.
template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<double> value, bool gradient = true);

/// Mean of (outputs - values)^2 over all entries, which must have one shape; the same convention.
template <class T>
double mean_squared_error(TensorView<T> outputs, TensorView<const float> values, bool gradient = true);
template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values, TensorView<double> value,
                        bool gradient = true);

}  // namespace orthornn
