#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// One batch of B sequences of T steps with what they should produce. A task fills what its model reads and
/// leaves the rest empty; the tensors keep their memory from batch to batch.
struct Batch {
  /// Input of OneHot and TokenEmbedding, [T, B].
  Tensor<std::int32_t> symbols;
  /// Input of DenseInput, [T, B, K].
  Tensor<float> features;
  /// Live steps of each sequence, [B], 0 .. T; empty when all are T.
  Tensor<std::int32_t> lengths;

  /// Target of softmax cross-entropy, [T, B] for EveryStep and [B] for LastStep; negative: not counted.
  Tensor<std::int32_t> classes;
  /// Target of the mean squared error, [T, B, C] or [B, C].
  Tensor<float> values;
};

}  // namespace orthornn
