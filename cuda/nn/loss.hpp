#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As those of orthornn, with the BatchLoss left in device memory, value [2]. The bias [C], where there is
/// one, is added to each row of the outputs first.
template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                           double smoothing, TensorView<const T> bias = {});
template <class T>
void mean_squared_error(TensorView<T> outputs, TensorView<const float> values,
                        TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient);

}  // namespace orthornn::cuda
