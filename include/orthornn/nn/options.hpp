#pragma once
// What a sequence model is made of, as plain values: the names a user writes and a model file keeps.

#include <variant>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Real vectors, [T, B, size].
struct DenseInput {
  Index size = 1;
};
/// Symbols 0 .. symbols - 1 as unit vectors that are never formed: [T, B] picks columns of the input weights.
struct OneHot {
  Index symbols = 2;
};
/// Symbols 0 .. tokens - 1, each with a learned vector of `size`.
struct TokenEmbedding {
  Index tokens = 2;
  Index size = 1;
};
using InputOptions = std::variant<DenseInput, OneHot, TokenEmbedding>;

/// Outputs at each of the T steps, [T, B, outputs].
struct EveryStep {
  Index outputs = 1;
};
/// Outputs of the last state alone, [B, outputs].
struct LastStep {
  Index outputs = 1;
};
using ReadoutOptions = std::variant<EveryStep, LastStep>;

/// Mean over all counted targets: of -log softmax(output)[class], or of the squared difference.
enum class Loss { softmax_cross_entropy, mean_squared_error };

}  // namespace orthornn
