#pragma once

#include <fmt/format.h>

#include "orthornn/core/error.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Throws ShapeError for another shape, DeviceError for another device.
template <class T>
void check_tensor(const char* name, TensorView<T> tensor, const Shape& shape, Device device) {
  check_shape(name, tensor.shape(), shape);
  if (tensor.device() != device) {
    throw DeviceError(fmt::format("{} lies on {}, expected {}; copy it there first", name,
                                  to_string(tensor.device()), to_string(device)));
  }
}

}  // namespace orthornn
