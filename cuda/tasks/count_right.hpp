#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// As orthornn::count_right, of shapes that fit.
void count_right(TensorView<const float> outputs, TensorView<const std::int32_t> classes,
                 TensorView<double> score);
/// As orthornn::count_right_sequences, of shapes that fit.
void count_right_sequences(TensorView<const float> outputs, TensorView<const std::int32_t> classes,
                           TensorView<double> score);

}  // namespace orthornn::cuda
