#pragma once

#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn {

/// Tensors that the scores of attention with Householder position encoding read, for the R tokens of B
/// sequences and H heads. The factor of a token is I - beta w w^T, a reflection for |w| = 1 and beta = 2.
template <class T>
struct PositionScoresInput {
  TensorView<const T> queries,  ///< Queries q [R, H, D].
      keys;                     ///< Keys k [R, H, D].
  TensorView<const T> vectors,  ///< Vectors w [R, H, D] of the factors.
      betas;                    ///< Step sizes beta [R, H] of the factors.
};

/// How position scores are computed.
struct PositionScoresOptions {
  /// Factor c of the scores.
  double scale = 1;
  /// Largest number of tokens in a chunk, 1 or more.
  Index chunk = 32;
};

/// Computes attention scores whose position encoding is the product of the factors between key and query,
/// which the data choose (PaTH: Yang et al., NeurIPS 2025, arXiv 2505.16381; docs/math.md, section 7). For
/// tokens s <= t of one sequence
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
/// scratch for a head are enough. The backward takes T^2 (D / (2 C) + 1) numbers for a head beside the
/// numbers that the forward kept. In a batch of different lengths, T^2 in these amounts of memory is the
/// length of a sequence times the length of the longest one.
///
/// Results have equal bits for every number of threads, and on a GPU in every run. `scratch` is as it was
/// when this returns. Throws ShapeError, ValueError for options outside their domain and for keys too long
/// for shared memory (thousands of numbers), and DeviceError unless all tensors are on the device of
/// `scratch`.
template <class T>
void position_scores(const PositionScoresInput<T>& input, const TokenLayout& layout,
                     const PositionScoresOptions& options, TensorView<T> scores, Saved& scratch);

/// Computes `position_scores` for a training: pushes the tensors that the backward reads on `saved`. Throws
/// as `position_scores`.
template <class T>
void position_scores_forward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                             const PositionScoresOptions& options, TensorView<T> scores, Saved& saved);

/// Tensors that the backward of position scores reads and writes. Gradients that are written are overwritten;
/// rows of padding get 0.
template <class T>
struct PositionScoresGradients {
  /// Gradient with respect to the scores, [B, H, T, T], read where s <= t.
  TensorView<const T> d_scores;
  TensorView<T> d_queries,  ///< Gradient with respect to the queries, [R, H, D].
      d_keys,               ///< Gradient with respect to the keys, [R, H, D].
      d_vectors,            ///< Gradient with respect to the vectors of the factors, [R, H, D].
      d_betas;              ///< Gradient with respect to the step sizes, [R, H].
};

/// Computes the gradients of the last `position_scores_forward` on `saved`, whose input and options it takes,
/// and pops what that forward pushed. Throws as the forward.
template <class T>
void position_scores_backward(const PositionScoresInput<T>& input, const TokenLayout& layout,
                              const PositionScoresOptions& options,
                              const PositionScoresGradients<T>& gradients, Saved& saved);

}  // namespace orthornn
