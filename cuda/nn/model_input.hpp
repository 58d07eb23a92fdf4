#pragma once

#include <cstdint>

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// x [T, B, K] <- features, with zeros beyond each sequence's length; lengths [B] or empty.
template <class T>
void copy_features(TensorView<const float> features, TensorView<const std::int32_t> lengths, TensorView<T> x);

/// x [T, B, E] <- the vectors [tokens, E] of the symbols [T, B]. A token that is none is a fault and gives
/// NaN.
template <class T>
void embed(TensorView<const T> vectors, TensorView<const std::int32_t> symbols, TensorView<T> x);

}  // namespace orthornn::cuda
