#pragma once

#include <cstdint>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// softmax_cross_entropy of outputs + bias [C], where each of R columns of C rows has the outputs of a
/// target. The gradient is not computed if it is empty; what the outputs hold then is unspecified. On the CPU
/// outputs have no gaps, and the gradient takes their place (both asserted). On a GPU the gradient may lie
/// elsewhere, and be bfloat16. It is memory of stride * R numbers there; those behind each column become 0.
/// A GPU adds the bias where it reads the outputs: with C = 24,852 and R = 1,266 they are 126 MB, which would
/// be written and read once more.
template <class T, class G>
void biased_cross_entropy(MatrixView<T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<double> value,
                          MatrixView<G> gradient, double smoothing);

}  // namespace orthornn
