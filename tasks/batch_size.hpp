#pragma once

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Throws ValueError unless a batch has at least one sequence, and at most 2^31 - 1 steps in all its
/// sequences of `length` steps: lengths of sequences and targets are counted in 32 bits.
void check_batch_size(const char* task, Index length, Index batch);

}  // namespace orthornn
