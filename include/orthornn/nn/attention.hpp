#pragma once

#include <cstdint>

#include "orthornn/core/saved.hpp"

namespace orthornn {

/// What attention reads: B sequences of T queries and S keys.
template <class T>
struct AttentionInput {
  /// q [T, B, N]
  TensorView<const T> queries;
  /// k [S, B, N], which are the values too.
  TensorView<const T> keys;
  /// Live keys of each sequence, [B], 0 .. S; empty when all are S. Keys beyond them are not read.
  TensorView<const std::int32_t> lengths = {};
  /// c below.
  T scale = 1;
};

/// Multiplicative attention (Luong, Pham and Manning, EMNLP 2015, section 3.1, "general", where q = W_a h):
///
///     weights [T, B, S]:  a_ts = softmax over the live s of c q_t . k_s, and 0 for the others
///     contexts [T, B, N]: sum over s of a_ts k_s, and 0 for a sequence without a live key
///
/// Allocates nothing once sized. Throws ShapeError, and ValueError for a length outside 0 .. S; on a GPU the
/// next call that waits throws the latter.
template <class T>
void attention(const AttentionInput<T>& input, TensorView<T> weights, TensorView<T> contexts);

/// What the backward of attention reads and writes.
template <class T>
struct AttentionGradients {
  /// Gradient with respect to the contexts, [T, B, N].
  TensorView<const T> d_contexts;
  /// Gradients with respect to queries [T, B, N] and keys [S, B, N], overwritten. The latter are 0 beyond a
  /// sequence's length, and have both ways on which keys act: as keys and as values.
  TensorView<T> d_queries, d_keys;
};

/// The input and the weights of the forward. `scratch` is as it was when this returns. Throws ShapeError.
template <class T>
void attention_backward(const AttentionInput<T>& input, TensorView<const T> weights,
                        const AttentionGradients<T>& gradients, Saved& scratch);

}  // namespace orthornn
