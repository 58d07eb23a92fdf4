#pragma once

#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn {

/// What the scores of attention with Householder position encoding read: R tokens of B sequences, H heads.
template <class T>
struct PositionScoresInput {
  /// q and k [R, H, D].
  TensorView<const T> queries, keys;
  /// w [R, H, D] and beta [R, H]: a token's factor is I - beta w w^T, a reflection for |w| = 1 and beta = 2.
  TensorView<const T> vectors, betas;
};

struct PositionScoresOptions {
  /// c below.
  double scale = 1;
  /// Tokens of a chunk, at most.
  Index chunk = 32;
};

/// PaTH (Yang et al., NeurIPS 2025, arXiv 2505.16381): what lies between a key and a query, a product of
/// factors that the data choose, is the position encoding. For tokens s <= t of one sequence
///
///     scores [B, H, T, T] (b, h, t, s) = c q_t^T F_t .. F_{s+1} k_s,    F_r = I - beta_r w_r w_r^T
///
/// and 0 for s > t and beyond a sequence's end. T is at least the longest sequence. Finite numbers are
/// assumed.
///
/// Keys are carried from chunk to chunk by the product of a chunk's factors (compact WY). With chunks of C
/// tokens a head of T tokens takes about T^2 (1.5 D + C) multiplications, and T D numbers of scratch. For a
/// backward it keeps the keys at each chunk's end, T^2 D / (2 C) numbers, and takes about three times as many
/// multiplications again. Heads and sequences run side by side; one head is one thread's work.
///
/// On a GPU a chunk has at most 32 tokens, and fewer where D is so large that shared memory is short. The
/// keys of each chunk run side by side too, and are in shared memory: without a backward, 2 T C numbers of
/// scratch for a head are enough. The backward takes T^2 (D / (2 C) + 1) numbers for a head beside those that
/// the forward kept. In a batch of different lengths, T^2 of this memory is a sequence's length times that of
/// the longest one.
///
/// Results have the same bits for every number of threads, and on a GPU in every run. `scratch` is as it was
/// when this returns. Throws ShapeError, ValueError for options outside their domain and for keys that shared
/// memory has no room for (thousands of numbers), and DeviceError for tensors that are not all where
/// `scratch` is.
template <class T>
void position_scores(const PositionScoresInput<T>& input, const TokenLayout& layout,
                     const PositionScoresOptions& options, TensorView<T> scores, Saved& scratch);

/// The same, for training: pushes what the backward reads.
template <class T>
void position_scores_forward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                             const PositionScoresOptions& options, TensorView<T> scores, Saved& saved);

/// Gradients are overwritten; rows of padding get 0.
template <class T>
struct PositionScoresGradients {
  /// [B, H, T, T]. What it holds for s > t is not read.
  TensorView<const T> d_scores;
  TensorView<T> d_queries, d_keys, d_vectors, d_betas;
};

/// The input and the options of the last forward on `saved`, which pushed what this pops. Throws as the
/// forward.
template <class T>
void position_scores_backward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                              const PositionScoresOptions& options,
                              const PositionScoresGradients<T>& gradients, Saved& saved);

}  // namespace orthornn
