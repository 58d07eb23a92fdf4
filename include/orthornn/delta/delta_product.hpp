#pragma once

#include <type_traits>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/precision.hpp"
#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"
#include "orthornn/scalar/bfloat16.hpp"

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

/// Whether a delta product has the chunked form on a device: on the CPU, and on GPUs with clusters (compute
/// capability 9.0), in a build that has code for them.
bool has_chunked_form(Device device);

/// What step sizes, decays and states consist of, beside vectors of T.
template <class T>
using DeltaNumber = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

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
  TensorView<const DeltaNumber<T>> betas;
  /// a, the logarithm of the decay before a token's first micro-step: [R, H], or [R, H, K] for one decay each
  /// row of the state, or empty for none; 0 or less. Minus infinity clears what it decays.
  TensorView<const DeltaNumber<T>> log_decays = {};
  /// r [R, n, H, K]: a factor is I - beta k (k * r)^T, as in RWKV-7. Empty for ones.
  TensorView<const T> removals = {};
  /// S before the first token, [B, H, K, V]; empty for zeros.
  TensorView<const DeltaNumber<T>> initial_states = {};
};

struct DeltaProductOptions {
  DeltaForm form = DeltaForm::chunked;
  /// c below.
  double scale = 1;
  /// Keys are divided by their norm, before anything else. A key of zeros stays as it is and has no gradient.
  /// In the chunked form on a GPU norms must be 1e-15 to 1e15: their squares are floats.
  bool unit_keys = false;
  /// Micro-steps of a chunk, about: a chunk has a whole number of tokens, one at least. 0 for the best of the
  /// device. Long ones do more arithmetic in faster products: on a CPU with AVX2, K = V = 64 and 128, 32 was
  /// at most a tenth behind the best of 16, 32 and 64. On a GPU a chunk has at most 64, and at most 32 for
  /// floats and for K > 128. A shorter chunk costs as much time there as a full one.
  Index chunk = 0;
  static constexpr Index cpu_chunk = 32, gpu_chunk = 64;
  /// The largest K of the recurrent form on a GPU.
  static constexpr Index gpu_recurrent_key = 1024;
  /// Segments of each sequence that a GPU does at once in the chunked form, at most: 1 for whole sequences, 0
  /// for as many as fill the GPU. Their number changes results by rounding. Only keys of at most 128 numbers
  /// are split.
  Index segments = 0;
  /// Of the products of floats in the chunked form on a GPU: tf32 and bf16 both take operands of 11 bits.
  Precision precision = Precision::fp32;
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
/// threads, and a sequence has the same bits alone and beside others, in segments of the same length.
/// `scratch` is as it was when this returns. Allocates nothing once sized, but what the layout did.
///
/// All tensors lie on the device of `scratch`. The CPU has both forms for float and double. A GPU has the
/// recurrent form for float and double and K up to `gpu_recurrent_key`, and the chunked form for float and
/// bfloat16 and K up to 256; that needs compute capability 9.0. With bfloat16, sums and states are float, and
/// what a forward keeps for its backward is rounded to bfloat16. On a GPU it can be recorded once the layout
/// has been there (TokenLayout::on).
///
/// Throws ShapeError, ValueError for options outside their domain and for sizes that a GPU's body does not
/// have, and DeviceError for tensors on different devices and for a form that their device does not have.
template <class T>
void delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                   const DeltaProductOptions& options, TensorView<T> outputs,
                   TensorView<DeltaNumber<T>> final_states, Saved& scratch);

/// The same, for training: pushes what the backward reads.
template <class T>
void delta_product_forward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<DeltaNumber<T>> final_states, Saved& saved);

/// What the backward reads and writes. Gradients have the shapes of what they are gradients of, and are
/// overwritten; rows of padding get 0.
template <class T>
struct DeltaProductGradients {
  TensorView<const T> d_outputs;
  /// Empty for zeros.
  TensorView<const DeltaNumber<T>> d_final_states = {};
  TensorView<T> d_queries, d_keys, d_values;
  TensorView<DeltaNumber<T>> d_betas;
  /// Empty where the input is empty. d_initial_states may be empty in any case.
  TensorView<DeltaNumber<T>> d_log_decays = {};
  TensorView<T> d_removals = {};
  TensorView<DeltaNumber<T>> d_initial_states = {};
};

/// The input and the options of the last forward on `saved`, which pushed what this pops. The initial states
/// are not read again. Throws as the forward.
template <class T>
void delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                            const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                            Saved& saved);

}  // namespace orthornn
