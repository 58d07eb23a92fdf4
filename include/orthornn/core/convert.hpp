#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn {

/// Writes the numbers of `from`, rounded to the nearest bfloat16, to `to`. Does not wait for a GPU. Throws
/// ShapeError for different shapes, and DeviceError for different devices: `copy` moves numbers of one type
/// between devices.
void convert(ConstTensorView<float> from, TensorView<bfloat16> to);
/// Writes the numbers of `from` to `to`; a float holds every bfloat16 exactly. Does not wait for a GPU.
/// Throws ShapeError for different shapes, and DeviceError for different devices.
void convert(ConstTensorView<bfloat16> from, TensorView<float> to);

}  // namespace orthornn
