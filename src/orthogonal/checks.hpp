#pragma once

#include <fmt/format.h>

#include <limits>

#include "orthornn/core/error.hpp"
#include "orthornn/linalg/orthogonality.hpp"

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

/// Throws ValueError unless the columns of q [N, M] are orthonormal up to rounding errors of T; returns its
/// error.
template <class T>
double check_orthogonal(ConstTensorView<T> q) {
  const double error = orthogonality_error<T>(q);
  if (!(error <= 64 * static_cast<double>(q.shape()[0]) * std::numeric_limits<T>::epsilon())) {
    throw ValueError(
        fmt::format("the columns of the matrix are not orthonormal: max |I - Q^T Q| is {:.2e}", error));
  }
  return error;
}

}  // namespace orthornn
