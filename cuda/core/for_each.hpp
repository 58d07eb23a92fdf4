#pragma once

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::cuda {

// As the functions of the same names in src/core/for_each.hpp, for the bodies that cuda/core/pointwise.cu
// names.

template <class Body>
void for_each(Device device, Index count, const Body& body);
template <class Body>
void for_each_entry(Device device, Index rows, Index columns, const Body& body);

}  // namespace orthornn::cuda
