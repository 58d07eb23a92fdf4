#pragma once

#include <array>
#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// One batch of B sequences of T steps with what they should produce. A task fills what its model reads and
/// leaves the rest empty; the tensors keep their memory from batch to batch, all on one device.
struct Batch {
  Batch() = default;
  explicit Batch(Device device)
      : symbols(Shape{0}, device),
        features(Shape{0}, device),
        lengths(Shape{0}, device),
        classes(Shape{0}, device),
        values(Shape{0}, device) {}

  /// Of all five tensors, in their order.
  using Shapes = std::array<Shape, 5>;

  Device device() const { return symbols.device(); }
  Shapes shapes() const {
    return {symbols.shape(), features.shape(), lengths.shape(), classes.shape(), values.shape()};
  }
  Batch copy(Device device) const {
    Batch result;
    result.symbols = symbols.copy(device);
    result.features = features.copy(device);
    result.lengths = lengths.copy(device);
    result.classes = classes.copy(device);
    result.values = values.copy(device);
    return result;
  }

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
