#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/delta/delta_product.hpp"
#include "orthornn/layers/delta_heads.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class AffineMap;
template <class T>
class DeltaProductLayer;
template <class T>
struct DeltaProjections;
template <class T>
struct DeltaReadout;

/// What happens to what a head reads from its state.
enum class ReadoutNorm { none, rms };
template <>
struct Names<ReadoutNorm> {
  using enum ReadoutNorm;
  static constexpr Choice<ReadoutNorm> list[] = {{"none", none}, {"rms", rms}};
};

/// What is done to the numbers of queries, keys and values before the first two are divided by their norms.
enum class VectorActivation { silu, identity };
template <>
struct Names<VectorActivation> {
  using enum VectorActivation;
  static constexpr Choice<VectorActivation> list[] = {{"silu", silu}, {"identity", identity}};
};

/// By what a micro-step multiplies its state: I - beta k k^T, or with removals a in (0, 1), a learned number
/// for each entry of a key, I - beta k (k * a)^T, as in RWKV-7 (Peng et al., 2025, arXiv 2503.14456).
enum class DeltaFactorKind { householder, rwkv7 };
template <>
struct Names<DeltaFactorKind> {
  using enum DeltaFactorKind;
  static constexpr Choice<DeltaFactorKind> list[] = {{"householder", householder}, {"rwkv7", rwkv7}};
};

/// A layer of DeltaProduct as plain values. With one factor it is DeltaNet, with decay as well Gated
/// DeltaNet.
struct DeltaProductCell {
  static constexpr const char* name = "deltaproduct";
  template <class T>
  using Layer = DeltaProductLayer<T>;
  static constexpr LayerTraits traits{.reads_symbols = true, .is_recurrence = true};
  Index hidden_size = 128;
  Index heads = 4;
  Index key_size = 32;
  Index value_size = 32;
  Index householder = 2;
  DeltaFactorKind factor = DeltaFactorKind::householder;
  double beta_limit = 2;
  double beta_offset = 0;
  VectorActivation vector_activation = VectorActivation::silu;
  bool state_decay = false;
  bool learn_initial_state = false;
  bool without_values = false;
  Index convolution = 0;
  ReadoutNorm readout_norm = ReadoutNorm::rms;
  double norm_epsilon = 1e-5;
  bool output_gate = false;

  static void fields(auto&& visit) {
    using O = DeltaProductCell;
    // Products of any two of them, times 64 factors, fit in 63 bits.
    constexpr Domain most_numbers{.low = 1, .high = 65536};
    visit("hidden_size", &O::hidden_size, domain::count, "Outputs N a step");
    visit("heads", &O::heads, most_numbers, "States, each with keys and values of its own");
    visit("key_size", &O::key_size, most_numbers, "Numbers in a key");
    visit("value_size", &O::value_size, most_numbers, "Numbers in a value");
    visit("householder", &O::householder, Domain{.low = 1, .high = 64},
          "Factors a step, each with a key and a value");
    visit("factor", &O::factor, domain::added_later,
          "householder: factors I - beta k k^T; rwkv7: I - beta k (k * a)^T with learned a in (0, 1)");
    visit("beta_limit", &O::beta_limit, Domain{.low = 0, .high = 2, .low_included = false},
          "Step sizes are below it: 1 projects, 2 reflects");
    visit("beta_offset", &O::beta_offset, domain::added_later,
          "Step sizes are --beta-limit sigma(p + it), p learned; with 20 they are the limit, in fp32");
    visit("vector_activation", &O::vector_activation, domain::added_later,
          "Of queries, keys and values: silu or identity");
    visit("state_decay", &O::state_decay, domain::any, "States decay by learned amounts at each step");
    visit("learn_initial_state", &O::learn_initial_state, domain::added_later,
          "Learn the state in which every sequence starts, instead of zeros");
    visit("without_values", &O::without_values, domain::added_later,
          "Factors turn the learned initial state, and values add nothing to it");
    visit("convolution", &O::convolution, Domain{.low = 0, .high = 64},
          "Steps that a convolution of queries, keys and values sees; 0 for none");
    visit("readout_norm", &O::readout_norm, domain::any, "What is done to what a head reads from its state");
    visit("norm_epsilon", &O::norm_epsilon, domain::positive, "Added to the mean square of the norm");
    visit("output_gate", &O::output_gate, domain::any, "What is read is multiplied by SiLU of a projection");
  }
  Index output_size(Index) const { return hidden_size; }
};

/// The layer of DeltaProduct (Siems et al., NeurIPS 2025, arXiv 2502.10297). For each step, with p = W x + b:
///
///     z = p, or its convolution with the steps before (causal, each channel by itself)
///     q, k_1 .. k_n, v_1 .. v_n = f(z), f = SiLU or 1; each q and k is divided by its norm (0 stays 0)
///     (without values they are 0)
///     beta = limit * sigma(p + offset), log decay = -exp(A) softplus(p)
///     o = delta_product(q, k, v, beta, log decay)   (scale 1)
///     y = R (g o / sqrt(mean(o^2) + epsilon) * SiLU(p)), the mean over the V numbers of a head
///
/// With factors of the kind rwkv7, removals a = sigma(p) are given to the delta product too, and a decay is
/// one for each row of a state: log decay = -e^(-1/2) sigma(p). Such a factor may have a norm above 1.
///
/// PREFIX/input_weights [M, K], input_bias [M]: W and b; rows as in DeltaHeads
/// PREFIX/filters [window, channels]: of the convolution, the filter of the step itself last
/// PREFIX/decay_rates [H]: A, for factors of the kind householder
/// PREFIX/norm_gain [V]: g
/// PREFIX/output_weights [N, H V]: R
/// PREFIX/initial_state [H, K, V]: where every sequence starts, if that is learned
///
/// States are S [B, H, K, V], and the convolution's last window - 1 inputs [B, window - 1, channels].
///
/// Whole sequences go through chunks where the device has that form; a step, and a short sequence, through
/// the recurrence. So do, on a GPU, 64 or more states (H times sequences) with K and V of at most 16 and
/// without decay. Both forms agree up to rounding. Factors of the kind rwkv7 have the recurrence alone.
///
/// On a GPU in bf16, queries, keys, values and what is read from the states are bfloat16 in chunks;
/// projections, step sizes, states and parameters stay float.
template <class T>
class DeltaProductLayer final : public Layer<T> {
 public:
  /// Where a layer's parameters are in the set; -1 for those it does not have.
  struct Places {
    Index input_weights = -1, input_bias = -1, filters = -1, decay_rates = -1, norm_gain = -1,
          output_weights = -1, initial_state = -1;
  };
  /// Adds the parameters of such a layer. Throws ValueError for options outside their domains, ShapeError for
  /// more numbers than fit in 63 bits.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const DeltaProductCell& options, Index input_size);

  DeltaProductLayer(ParameterSet<T>& parameters, const std::string& prefix, const DeltaProductCell& options,
                    Index input_size, const Execution& execution = {});
  ~DeltaProductLayer() override;

  Index state_count() const override { return window_ > 1 ? 2 : 1; }
  Shape state_shape(Index i, Index batch) const override;
  std::string state_name(Index i) const override { return i == 0 ? "s" : "convolution"; }

  /// W from N(0, 1 / K), R from N(0, 1 / (H V)), a learned initial state from N(0, 1), filters from
  /// U(-1 / sqrt(window), 1 / sqrt(window)), g = 1, b = 0. With decay as Gated DeltaNet: exp(A) from
  /// U(0, 16), and b such that softplus(b) is 1e-3 to 1e-1, uniform in its logarithm; decays of rows such
  /// that -log decay is.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index length, Index batch) const override;

  /// What comes before the names of the layer's parameters, and a '/'.
  std::string prefix() const;
  /// What the layer's last forward on `saved` gave to delta_product, [T B, ..] as TokenLayout::time_major has
  /// it. Its first states are the learned one [1, H, K, V], which all sequences share, or none. Valid until
  /// it is popped. Throws ValueError where there is no such forward, and for one whose vectors are bfloat16.
  DeltaProductInput<T> factors(const Saved& saved) const;

 private:
  void run_initial_state(States<T> states) const override;
  void start_from_learned(TensorView<T> states) const;
  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;

  DeltaForm form(Index length, Index batch) const;
  DeltaProductOptions delta_options(Index length, Index batch) const {
    return {.form = form(length, batch),
            .precision = has_small_states() ? Precision::fp32 : execution_.precision};
  }
  /// On a GPU in bf16 the vectors of a delta product in chunks are bfloat16; else they are of T.
  bool rounds_vectors(Index length, Index batch) const;
  /// On a GPU, K and V are small enough for states in registers, and nothing but Householder factors changes
  /// them. Their products are those of fp32 in every precision.
  bool has_small_states() const;
  /// For vectors of X.
  template <class X>
  TensorView<const T> forward_with(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                   Saved& saved) const;
  template <class X>
  void backward_with(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                     Saved& saved, Saved& scratch) const;
  DeltaProjections<T> projections(TensorView<const T> rows, const SequenceInput<T>& input) const;
  DeltaReadout<T> readout(TensorView<const T> rows, const SequenceInput<T>& input) const;
  /// A parameter, or nothing where this layer does not have it.
  TensorView<const T> value_or_none(Index place) const {
    return place < 0 ? TensorView<const T>() : this->value(place);
  }
  /// On a GPU kept for good: what is recorded refers to it.
  const TokenLayout& layout(Index length, Index batch) const;

  DeltaProductCell options_;
  Execution execution_;
  DeltaHeads heads_;
  /// Steps that z sees; 1 without a convolution.
  Index window_;
  Places places_;
  std::unique_ptr<AffineMap<T>> input_map_, output_map_;
  mutable std::map<std::pair<Index, Index>, TokenLayout> layouts_;
};

extern template class DeltaProductLayer<float>;
extern template class DeltaProductLayer<double>;

}  // namespace orthornn
