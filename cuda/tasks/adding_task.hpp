#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/philox.hpp"

namespace orthornn::cuda {

/// What AddingTask writes into the features [T, B, 2] and values [B, 1] of a batch, from draws of the stream.
void fill_adding_batch(const PhiloxStream& stream, TensorView<float> features, TensorView<float> values);

}  // namespace orthornn::cuda
