#pragma once

#include <functional>

#include "orthornn/core/device.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::program {

/// Returns a function that times Eigen's product of N x N by N x B numbers, in GFLOP/s: what the machine
/// reaches at the sizes of a step. Every thread multiplies its share of the columns, over and over, without
/// waiting for the others. Null for a GPU: the product of a CPU would say nothing of it.
template <class T>
std::function<double()> eigen_product(Device device, Index n, Index batch);

}  // namespace orthornn::program
