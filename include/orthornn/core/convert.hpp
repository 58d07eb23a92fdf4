#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn {

/// to <- from, rounded to the nearest (bfloat16), of one shape and on one device; does not synchronize.
/// Throws ShapeError, and DeviceError for two devices: `copy` moves numbers of one type between devices.
void convert(ConstTensorView<float> from, TensorView<bfloat16> to);
/// The same without an error.
void convert(ConstTensorView<bfloat16> from, TensorView<float> to);

}  // namespace orthornn
