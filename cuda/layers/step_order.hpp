#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// to <- (or +=) from, matrices of one column for each step and sequence of B; `reversed`: step t of the live
/// steps (lengths [B] or all) is the last but t of the other.
template <class U>
void copy_steps(MatrixView<const U> from, MatrixView<U> to, Index batch,
                TensorView<const std::int32_t> lengths, bool reversed, bool adds);

}  // namespace orthornn::cuda
