#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// softmax_cross_entropy of outputs + bias for outputs [R, C] and a bias [C]; without a gradient, what the
/// outputs hold is unspecified. A GPU adds the bias where it reads the outputs: with C = 24,852 and R = 1,266
/// they are 126 MB, which would be written and read once more.
template <class T>
void biased_cross_entropy(TensorView<T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<double> value, bool gradient,
                          double smoothing);

}  // namespace orthornn
