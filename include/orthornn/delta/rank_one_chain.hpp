#pragma once

#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn {

/// Tensors of chains of factors I + q k^T, with q = alpha q' and k = beta k': a factor for each of the R rows
/// of B sequences, and H heads.
template <class T>
struct RankOneChainInput {
  TensorView<const T> left,              ///< Left vectors q' [R, H, D].
      right;                             ///< Right vectors k' [R, H, D].
  TensorView<const T> left_scales = {},  ///< Scales alpha [R, H]; empty for ones.
      right_scales = {};                 ///< Scales beta [R, H]; empty for ones.
  /// States s before the first factor, [B, H, D, M].
  TensorView<const T> initial_states;
};

/// How a chain is computed.
struct RankOneChainOptions {
  /// Largest number of factors in a chunk, which is multiplied at once; 1 or more.
  Index chunk = 32;
};

/// Computes a chain of general rank-one factors (docs/math.md, section 6): for each row t of a sequence
/// s_t = (I + q_t k_t^T) s_{t-1}, and outputs [R, H, M] = s_{t-1}^T k_t. Final states [B, H, D, M] are s
/// after the last factor; they may be empty, and may be the initial states. Outputs in rows of padding are 0.
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
/// Results have equal bits for every number of threads, and on a GPU in every run. `scratch` is as it was
/// when this returns. Throws ShapeError, ValueError for a chunk of 0 or less and for vectors too long for
/// shared memory (thousands of numbers), and DeviceError unless all tensors are on the device of `scratch`.
template <class T>
void rank_one_chain(const RankOneChainInput<T>& input, const TokenLayout& layout,
                    const RankOneChainOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                    Saved& scratch);

/// Computes `rank_one_chain` for a training: pushes the tensors that the backward reads on `saved`. Throws as
/// `rank_one_chain`.
template <class T>
void rank_one_chain_forward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> outputs,
                            TensorView<T> final_states, Saved& saved);

/// Tensors that the backward of a chain reads and writes. Gradients that are written are overwritten; rows of
/// padding get 0.
template <class T>
struct RankOneChainGradients {
  /// Gradient with respect to the outputs, [R, H, M], read.
  TensorView<const T> d_outputs;
  /// Gradient with respect to the final states, [B, H, D, M], read; empty for zeros.
  TensorView<const T> d_final_states = {};
  TensorView<T> d_left,              ///< Gradient with respect to the left vectors, [R, H, D].
      d_right;                       ///< Gradient with respect to the right vectors, [R, H, D].
  TensorView<T> d_left_scales = {},  ///< Gradient with respect to alpha, [R, H]; empty where the input is.
      d_right_scales = {},           ///< Gradient with respect to beta, [R, H]; empty where the input is.
      d_initial_states = {};         ///< Gradient with respect to s_0, [B, H, D, M]; empty if not wanted.
};

/// Computes the gradients of the last `rank_one_chain_forward` on `saved`, whose input and options it takes,
/// and pops what that forward pushed. Throws as the forward.
template <class T>
void rank_one_chain_backward(const RankOneChainInput<T>& input, const TokenLayout& layout,
                             const RankOneChainOptions& options, const RankOneChainGradients<T>& gradients,
                             Saved& saved);

/// Computes the inverses [B, H, D, D] of the products of all factors of a sequence, the last factor leftmost
/// in the product: (I + q k^T)^-1 = I - q k^T / (1 + q^T k), so they are a mirrored chain. It is stable where
/// factors are reflections, alpha beta |q'|^2 = -2 with q' = k'; elsewhere it loses as many digits as the
/// condition of the factors costs. The initial states are not read. Throws as `rank_one_chain`, and
/// ValueError for a factor with 1 + q^T k = 0, which it names. On a GPU that exception comes when the host
/// next waits for it and names the place in [R, H]; the matrix of that sequence and head is then no inverse.
template <class T>
void rank_one_chain_inverse(const RankOneChainInput<T>& input, const TokenLayout& layout,
                            const RankOneChainOptions& options, TensorView<T> inverses, Saved& scratch);

}  // namespace orthornn
