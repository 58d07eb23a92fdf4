#pragma once

#include <cstdint>

#include "orthornn/core/saved.hpp"

namespace orthornn {

/// Tensors that attention reads, for B sequences of T queries and S keys. Keys are values too.
template <class T>
struct AttentionInput {
  /// Queries q [T, B, N].
  TensorView<const T> queries;
  /// Keys k [S, B, N].
  TensorView<const T> keys;
  /// Live keys of each sequence, [B], 0 to S; empty when all are S. Keys beyond them are not read.
  TensorView<const std::int32_t> lengths = {};
  /// Factor c of the products of queries and keys.
  T scale = 1;
};

/// Computes multiplicative attention (Luong, Pham and Manning, EMNLP 2015, section 3.1, "general", where
/// q = W_a h):
///
///     weights [T, B, S]:  a_ts = softmax over the live s of c q_t . k_s, and 0 for the others
///     contexts [T, B, N]: sum over s of a_ts k_s, and 0 for a sequence without a live key
///
/// Allocates nothing once sized. Throws ShapeError, and ValueError for a length outside 0 to S; on a GPU the
/// next call that waits throws that ValueError.
template <class T>
void attention(const AttentionInput<T>& input, TensorView<T> weights, TensorView<T> contexts);

/// Gradients that the backward of attention reads and writes. The gradient of the keys is 0 beyond a
/// sequence's length.
template <class T>
struct AttentionGradients {
  /// Gradient with respect to the contexts, [T, B, N], read.
  TensorView<const T> d_contexts;
  TensorView<T> d_queries,  ///< Gradient with respect to the queries, [T, B, N], overwritten.
      d_keys;  ///< Gradient with respect to the keys, as keys and as values, [S, B, N], overwritten.
};

/// Computes the gradients of attention from the input and the weights of its forward. `scratch` is as it was
/// when this returns. Throws ShapeError.
template <class T>
void attention_backward(const AttentionInput<T>& input, TensorView<const T> weights,
                        const AttentionGradients<T>& gradients, Saved& scratch);

}  // namespace orthornn
