#pragma once

#include <cstdint>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// As orthornn::invert_general, by cuSOLVER; `pivots` lie on the device.
template <class T>
void invert_general(MatrixView<T> a, MatrixView<T> inverse, std::int64_t* pivots);

}  // namespace orthornn::cuda
