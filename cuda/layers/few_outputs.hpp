#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

inline constexpr int most_few_outputs = 16;

/// Whether `map_to_few` and `few_weights_gradient` take a map of K inputs to M outputs, for so many vectors:
/// for few of them products of matrices are as fast.
template <class T>
bool takes_few_outputs(Index inputs, Index outputs, Index vectors);

/// y [R, M] <- W x + b for the weights W [M, K], bias b [M], which may be empty, and vectors x [R, K]. Such
/// maps wait for memory: each vector is read once, and its products have the precision of T.
template <class T>
void map_to_few(TensorView<const T> weights, TensorView<const T> bias, TensorView<const T> vectors,
                TensorView<T> y);

/// d_weights [M, K] <- its gradient, for a gradient g [R, M] of y.
template <class T>
void few_weights_gradient(TensorView<const T> g, TensorView<const T> vectors, TensorView<T> d_weights);

}  // namespace orthornn::cuda
