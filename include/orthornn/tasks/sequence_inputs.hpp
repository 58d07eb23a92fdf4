#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Sequences of a file or a folder without their targets, one after the other, before `Task::own_features`.
struct SequenceInputs {
  /// Vectors that are read, [S, K], NaN where a number is missing; empty where steps are symbols.
  Tensor<float> features = {};
  /// Symbols that are read, [S], from 0 on; empty where steps are vectors.
  Tensor<std::int32_t> symbols = {};
  /// Steps of each sequence, [N], each 1 or more.
  std::vector<std::int32_t> lengths = {};
  /// What the file calls each sequence, [N]; empty where sequences have no names.
  std::vector<std::string> names = {};
};

}  // namespace orthornn
