#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// features [T, B, 1] <- the pixels [images, T] of B images over 255, and classes [B] <- their labels
/// [images]. Image b is number `first + b`, or number order[first + b] unless `order` is empty; position t
/// shows pixel t, or pixel input_order[t] unless that is empty.
void fill_mnist_batch(TensorView<const std::uint8_t> pixels, TensorView<const std::uint8_t> labels,
                      TensorView<const std::int32_t> order, Index first,
                      TensorView<const std::int32_t> input_order, TensorView<float> features,
                      TensorView<std::int32_t> classes);

}  // namespace orthornn::cuda
