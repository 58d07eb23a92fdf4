#pragma once

#include "orthornn/core/fields.hpp"
#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn {

/// How a delta product goes through its tokens. All give the same function of finite numbers.
enum class DeltaForm {
  /// One factor after another: for generation, and what the other form is compared with.
  recurrent,
  /// Chunks of micro-steps as matrix products (the UT transform): for whole sequences.
  chunked,
};
template <>
struct Names<DeltaForm> {
  using enum DeltaForm;
  static constexpr Choice<DeltaForm> list[] = {{"recurrent", recurrent}, {"chunked", chunked}};
};

/// What a delta product reads: the R tokens of B sequences, each with n micro-steps, and H heads.
template <class T>
struct DeltaProductInput {
  /// q [R, H, K]
  TensorView<const T> queries;
  /// k [R, n, H, K]. The factors I - beta k k^T are as stable as they should be for keys of norm 1.
  TensorView<const T> keys;
  /// v [R, n, H, V]
  TensorView<const T> values;
  /// beta [R, n, H]: 0 leaves the state, 1 projects, 2 reflects.
  TensorView<const T> betas;
  /// a, the logarithm of the decay before a token's first micro-step: [R, H], or [R, H, K] for one decay each
  /// row of the state, or empty for none; 0 or less. Minus infinity clears what it decays.
  TensorView<const T> log_decays = {};
  /// r [R, n, H, K]: a factor is I - beta k (k * r)^T, as in RWKV-7. Empty for ones.
  TensorView<const T> removals = {};
  /// S before the first token, [B, H, K, V]; empty for zeros.
  TensorView<const T> initial_states = {};
};

struct DeltaProductOptions {
  DeltaForm form = DeltaForm::chunked;
  /// c below.
  double scale = 1;
  /// Keys are divided by their norm, before anything else. A key of zeros stays as it is and has no gradient.
  bool unit_keys = false;
  /// Micro-steps of a chunk, about: a chunk has a whole number of tokens, one at least. Long ones do more
  /// arithmetic in faster products: on a CPU with AVX2, K = V = 64 and 128, 32 was at most a tenth behind the
  /// best of 16, 32 and 64.
  Index chunk = 32;
};

/// DeltaProduct (Siems et al., NeurIPS 2025, arXiv 2502.10297); with n = 1 DeltaNet, and with decay Gated
/// DeltaNet. For each token, S <- diag(e^a) S, then for each of its n micro-steps
///
///     S <- S + beta k (v - S^T (k * r))^T
///
/// and outputs [R, H, V] = c S^T q after the last of them. Final states [B, H, K, V] are S after the last
/// token; they may be empty, and may be the initial states. Outputs in rows of padding are 0.
///
/// A decay for each row and removals need the recurrent form. Results have the same bits for every number of
/// threads, and a sequence has the same bits alone and beside others. `scratch` is as it was when this
/// returns. Allocates nothing once sized, but what the layout did. Throws ShapeError, ValueError for options
/// outside their domain, and DeviceError for tensors of a GPU.
template <class T>
void delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                   const DeltaProductOptions& options, TensorView<T> outputs, TensorView<T> final_states,
                   Saved& scratch);

/// The same, for training: pushes what the backward reads.
template <class T>
void delta_product_forward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<T> final_states, Saved& saved);

/// What the backward reads and writes. Gradients have the shapes of what they are gradients of, and are
/// overwritten; rows of padding get 0.
template <class T>
struct DeltaProductGradients {
  TensorView<const T> d_outputs;
  /// Empty for zeros.
  TensorView<const T> d_final_states = {};
  TensorView<T> d_queries, d_keys, d_values, d_betas;
  /// Empty where the input is empty. d_initial_states may be empty in any case.
  TensorView<T> d_log_decays = {}, d_removals = {}, d_initial_states = {};
};

/// The input and the options of the last forward on `saved`, which pushed what this pops. The initial states
/// are not read again. Throws as the forward.
template <class T>
void delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                            const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                            Saved& saved);

}  // namespace orthornn
