#pragma once

#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn {

/// Chains of factors I + q k^T, one for each of the R rows of B sequences, and H heads:
/// q = alpha q', k = beta k'.
template <class T>
struct RankOneChainInput {
  /// q' and k' [R, H, D].
  TensorView<const T> left, right;
  /// alpha and beta [R, H]; empty for ones.
  TensorView<const T> left_scales = {}, right_scales = {};
  /// s before the first factor, [B, H, D, M].
  TensorView<const T> initial_states;
};

struct RankOneChainOptions {
  /// Factors of a chunk, at most: a chunk is multiplied at once.
  Index chunk = 32;
};

/// For each row t of a sequence s_t = (I + q_t k_t^T) s_{t-1}, and outputs [R, H, M] = s_{t-1}^T k_t. Final
/// states [B, H, D, M] are s after the last factor; they may be empty, and may be the initial states. Outputs
/// in rows of padding are 0.
///
/// Chunks are solved as triangular systems: with the factors of a chunk as the rows of Q and K,
/// (I - tril(K Q^T, -1)) U = K s and s + Q^T U is the next state.
///
/// The mirrored chain r_t = r_{t-1} (I + q_t k_t^T) with outputs r_{t-1} q_t is this one of r^T, with left
/// and right exchanged.
///
/// On a GPU a chunk has at most 32 factors, and fewer where D is so large that shared memory is short. A
/// layout that has been used there before needs no memory again, so calls can be recorded.
///
/// Results have the same bits for every number of threads, and on a GPU in every run. `scratch` is as it was
/// when this returns. Throws ShapeError, ValueError for a chunk of 0 or less and for vectors that shared
/// memory has no room for (thousands of numbers), and DeviceError for tensors that are not all where
/// `scratch` is.
template <class T>
void rank_one_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                    const RankOneChainOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                    Saved& scratch);

/// The same, for training: pushes what the backward reads.
template <class T>
void rank_one_chain_forward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> outputs,
                            TensorView<T> final_states, Saved& saved);

/// Gradients have the shapes of what they are gradients of, and are overwritten; rows of padding get 0.
template <class T>
struct RankOneChainGradients {
  TensorView<const T> d_outputs;
  /// Empty for zeros.
  TensorView<const T> d_final_states = {};
  TensorView<T> d_left, d_right;
  /// Empty where the input is empty. d_initial_states may be empty in any case.
  TensorView<T> d_left_scales = {}, d_right_scales = {}, d_initial_states = {};
};

/// The input and the options of the last forward on `saved`, which pushed what this pops. Throws as the
/// forward.
template <class T>
void rank_one_chain_backward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                             const RankOneChainOptions& options, const RankOneChainGradients<T>& gradients,
                             Saved& saved);

/// Inverses [B, H, D, D] of the products of all factors of a sequence, the last factor leftmost in the
/// product: (I + q k^T)^-1 = I - q k^T / (1 + q^T k), so they are a mirrored chain. It is stable where
/// factors are reflections, alpha beta |q'|^2 = -2 with q' = k', and loses the digits that the factors'
/// conditions cost elsewhere. The initial states are not read. Throws as above, and ValueError for a factor
/// with 1 + q^T k = 0, which it names. On a GPU that exception comes when the host next waits for it and
/// names the place in [R, H]; what was written for that sequence and head is no inverse.
template <class T>
void rank_one_chain_inverse(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> inverses, Saved& scratch);

}  // namespace orthornn
