#pragma once

#include <cstdint>

#include "cuda/linalg/column_sums.hpp"
#include "orthornn/core/precision.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// a [T, B, N] <- W x + b for the weights W [N, K], bias b [N], which may be empty, and vectors x [T, B, K].
template <class T>
void multiply_vectors(TensorView<const T> weights, TensorView<const T> bias, TensorView<const T> vectors,
                      TensorView<T> a, Precision precision);

/// a [T, B, N] <- column x_tb of the weights [N, K] plus bias [N]. `columns` [K, N] is scratch. A symbol
/// outside 0 .. K - 1 is a fault and gives NaN.
template <class T>
void pick_columns(TensorView<const T> weights, TensorView<const T> bias,
                  TensorView<const std::int32_t> symbols, TensorView<T> columns, TensorView<T> a);

/// Reports lengths [B] outside 0 .. `most`.
void check_lengths(TensorView<const std::int32_t> lengths, Index most);

}  // namespace orthornn::cuda
