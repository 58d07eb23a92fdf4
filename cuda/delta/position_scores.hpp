#pragma once

#include "orthornn/delta/position_scores.hpp"

namespace orthornn::cuda {

/// As those of orthornn (src/delta), in device memory, with chunks of at most 32 tokens. Throw ValueError for
/// keys that are too long for shared memory. Rows of padding are neither read nor written. `scores` hold
/// zeros already.
template <class T>
void position_scores(const PositionScoresInput<T>& input, const TokenLayout& layout,
                     const PositionScoresOptions& options, TensorView<T> scores, bool keep, Saved& saved);
template <class T>
void position_scores_backward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                              const PositionScoresOptions& options,
                              const PositionScoresGradients<T>& gradients, Saved& saved);

}  // namespace orthornn::cuda
