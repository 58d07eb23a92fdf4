#pragma once

#include <cstdint>

#include "orthornn/linalg/matrix_view.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn::cuda {

/// As those of orthornn, with the BatchLoss left in device memory, value [2].
template <class T>
void softmax_cross_entropy(TensorView<T> outputs, TensorView<const std::int32_t> classes,
                           TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                           double smoothing, TensorView<const float> weights);
/// As that of src/nn/softmax_output.cpp. The gradient may be bfloat16. It is memory of stride * cols numbers;
/// those behind the rows of each column become 0.
template <class T, class G>
void biased_cross_entropy(MatrixView<const T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<double> value,
                          MatrixView<G> gradient, double smoothing);
/// As that of src/nn/loss.cpp.
template <class T>
void error_of_numbers(TensorView<T> outputs, TensorView<const float> values,
                      TensorView<const std::int32_t> lengths, TensorView<double> value, bool gradient,
                      TensorView<const float> weights, bool with_absolute);

}  // namespace orthornn::cuda
