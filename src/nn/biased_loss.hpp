#pragma once

#include <cstdint>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// softmax_cross_entropy of outputs + bias [C], where each of R columns of C rows has the outputs of a
/// target; without a gradient, what the outputs hold is unspecified. On the CPU they have no gaps (asserted);
/// on a GPU they are memory of stride * R numbers, and what lies behind each column becomes 0 with the
/// gradient. A GPU adds the bias where it reads the outputs: with C = 24,852 and R = 1,266 they are 126 MB,
/// which would be written and read once more.
template <class T>
void biased_cross_entropy(MatrixView<T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<double> value, bool gradient,
                          double smoothing);

}  // namespace orthornn
