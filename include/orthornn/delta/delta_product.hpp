#pragma once

#include <type_traits>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/precision.hpp"
#include "orthornn/core/saved.hpp"
#include "orthornn/delta/delta_sizes.hpp"
#include "orthornn/delta/token_layout.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn {

/// How a delta product goes through its tokens. The two forms compute one function of finite numbers.
enum class DeltaForm {
  /// One factor after another, for generation and as the reference of the other form.
  recurrent,
  /// Chunks of factors as matrix products (the UT transform; docs/math.md, section 5.3), for whole sequences.
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

/// Type of step sizes, decays and states beside vectors of T: float for bfloat16, else T.
template <class T>
using DeltaNumber = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

/// Tensors that a delta product reads, for the R tokens of B sequences, each with n factors, and H heads.
template <class T>
struct DeltaProductInput {
  /// Queries q [R, H, K].
  TensorView<const T> queries;
  /// Keys k [R, n, H, K]. With keys of norm 1 and beta from 0 to 2, no factor I - beta k k^T lengthens a
  /// state.
  TensorView<const T> keys;
  /// Values v [R, n, H, V].
  TensorView<const T> values;
  /// Step sizes beta [R, n, H]: 0 leaves the state, 1 projects, 2 reflects.
  TensorView<const DeltaNumber<T>> betas;
  /// Logarithms a of the decays before a token's first factor, 0 or less: [R, H], or [R, H, K] for one decay
  /// for each row of the state, or empty for none. A logarithm of minus infinity clears the state or row.
  TensorView<const DeltaNumber<T>> log_decays = {};
  /// Removals r [R, n, H, K]; empty for ones. A factor is I - beta k (k * r)^T, as in RWKV-7.
  TensorView<const T> removals = {};
  /// States S before the first token, [B, H, K, V]; empty for zeros.
  TensorView<const DeltaNumber<T>> initial_states = {};

  /// Sizes that the shapes of keys and values say. These are not checked.
  DeltaSizes sizes() const {
    return {.factors = keys.shape()[1],
            .heads = keys.shape()[2],
            .key = keys.shape()[3],
            .value = values.shape()[3]};
  }
};

/// How a delta product is computed.
struct DeltaProductOptions {
  /// How the tokens are gone through.
  DeltaForm form = DeltaForm::chunked;
  /// Factor c of the outputs.
  double scale = 1;
  /// Whether keys are divided by their norm, before anything else. A key of zeros stays as it is and has no
  /// gradient. In the chunked form on a GPU norms must be 1e-15 to 1e15: their squares are floats.
  bool unit_keys = false;
  /// About how many factors a chunk has: it has a whole number of tokens, at least one. 0 is the best number
  /// for the device. Long chunks do more arithmetic in faster products: on a CPU with AVX2, K = V = 64
  /// and 128, 32 was at most a tenth behind the best of 16, 32 and 64. On a GPU a chunk has at most 64, and
  /// at most 32 for floats and for K > 128. A shorter chunk costs as much time there as a full one.
  Index chunk = 0;
  static constexpr Index cpu_chunk = 32,  ///< Factors of a chunk on the CPU by default.
      gpu_chunk = 64;                     ///< Most factors of a chunk on a GPU.
  /// Largest K of the recurrent form on a GPU.
  static constexpr Index gpu_recurrent_key = 1024;
  /// Largest number of segments of a sequence that a GPU computes at once in the chunked form: 1 for whole
  /// sequences, 0 for as many as fill the GPU. Their number changes results by rounding. Only sequences with
  /// keys of at most 128 numbers are split.
  Index segments = 0;
  /// Precision of the products of floats in the chunked form on a GPU: tf32 and bf16 both take operands with
  /// significands of 11 bits.
  Precision precision = Precision::fp32;
};

/// Computes DeltaProduct (docs/math.md, section 5.1; Siems et al., NeurIPS 2025, arXiv 2502.10297). With n =
/// 1 it is DeltaNet, and with decay as well Gated DeltaNet. For each token, S <- diag(e^a) S, then for each
/// of its n factors
///
///     S <- S + beta k (v - S^T (k * r))^T
///
/// and outputs [R, H, V] = c S^T q after the last of them. Final states [B, H, K, V] are S after the last
/// token; they may be empty, and may be the initial states. Outputs in rows of padding are 0.
///
/// A decay for each row and removals need the recurrent form. Results have equal bits for every number of
/// threads, and a sequence has equal bits alone and beside others, in segments of one length. `scratch` is as
/// it was when this returns. Nothing is allocated once sized, except by TokenLayout::on for a layout that is
/// not regular.
///
/// All tensors lie on the device of `scratch`. The CPU has both forms for float and double. A GPU has the
/// recurrent form for float and double and K up to `gpu_recurrent_key`, and the chunked form for float and
/// bfloat16 and K up to 256; that needs compute capability 9.0. With bfloat16, sums and states are float, and
/// tensors that a forward keeps for its backward are rounded to bfloat16. On a GPU it can be recorded once
/// the layout was used there (TokenLayout::on), and at once if it is regular.
///
/// Throws ShapeError, ValueError for options outside their domain and for sizes that a GPU's body does not
/// have, and DeviceError for tensors on different devices and for a form that their device does not have.
template <class T>
void delta_product(const DeltaProductInput<T>& input, const TokenLayout& layout,
                   const DeltaProductOptions& options, TensorView<T> outputs,
                   TensorView<DeltaNumber<T>> final_states, Saved& scratch);

/// Computes `delta_product` for a training: pushes the tensors that the backward reads on `saved`. Throws as
/// `delta_product`.
template <class T>
void delta_product_forward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                           const DeltaProductOptions& options, TensorView<T> outputs,
                           TensorView<DeltaNumber<T>> final_states, Saved& saved);

/// Tensors that the backward of a delta product reads and writes. Each gradient has the shape of its tensor.
/// Gradients that are written are overwritten; rows of padding get 0.
template <class T>
struct DeltaProductGradients {
  /// Gradient with respect to the outputs, [R, H, V], read.
  TensorView<const T> d_outputs;
  /// Gradient with respect to the final states, [B, H, K, V], read; empty for zeros.
  TensorView<const DeltaNumber<T>> d_final_states = {};
  TensorView<T> d_queries,  ///< Gradient with respect to the queries, [R, H, K].
      d_keys,               ///< Gradient with respect to the keys, [R, n, H, K].
      d_values;             ///< Gradient with respect to the values, [R, n, H, V].
  /// Gradient with respect to the step sizes, [R, n, H].
  TensorView<DeltaNumber<T>> d_betas;
  /// Gradient with respect to the logarithms of the decays; empty where the input has none.
  TensorView<DeltaNumber<T>> d_log_decays = {};
  /// Gradient with respect to the removals, [R, n, H, K]; empty where the input has none.
  TensorView<T> d_removals = {};
  /// Gradient with respect to the initial states, [B, H, K, V]; empty where it is not wanted.
  TensorView<DeltaNumber<T>> d_initial_states = {};
};

/// Computes the gradients of the last `delta_product_forward` on `saved`, whose input and options it takes,
/// and pops what that forward pushed. The initial states are not read again. Throws as the forward.
template <class T>
void delta_product_backward(const DeltaProductInput<T>& input, const TokenLayout& layout,
                            const DeltaProductOptions& options, const DeltaProductGradients<T>& gradients,
                            Saved& saved);

}  // namespace orthornn
