#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// x [T, B, K] <- features, with zeros beyond each sequence's length; lengths [B] or empty.
template <class T>
void copy_features(TensorView<const float> features, TensorView<const std::int32_t> lengths, TensorView<T> x);

}  // namespace orthornn::cuda
