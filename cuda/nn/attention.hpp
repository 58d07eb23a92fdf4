#pragma once

#include "orthornn/nn/attention.hpp"

namespace orthornn::cuda {

/// As those of orthornn, in device memory. A length outside 0 .. S counts as the nearest one.
template <class T>
void attention(const AttentionInput<T>& input, TensorView<T> weights, TensorView<T> contexts);
/// d_scores [T, B, S] is scratch.
template <class T>
void attention_backward(const AttentionInput<T>& input, TensorView<const T> weights,
                        const AttentionGradients<T>& gradients, TensorView<T> d_scores);

}  // namespace orthornn::cuda
