#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn::cuda {

void convert(TensorView<const float> from, TensorView<bfloat16> to);
void convert(TensorView<const bfloat16> from, TensorView<float> to);

}  // namespace orthornn::cuda
