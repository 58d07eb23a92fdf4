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
struct DeltaPlan;
template <class T>
struct DeltaProjections;
template <class T>
struct DeltaReadout;
template <class T, class X>
struct DeltaVectors;

/// Norm of the numbers that a head reads from its state.
enum class ReadoutNorm {
  none,  ///< The numbers stay as they are.
  rms    ///< The numbers are divided by their root mean square and multiplied by a learned gain.
};
template <>
struct Names<ReadoutNorm> {
  using enum ReadoutNorm;
  static constexpr Choice<ReadoutNorm> list[] = {{"none", none}, {"rms", rms}};
};

/// Function of the numbers of queries, keys and values, before queries and keys are divided by their norms.
enum class VectorActivation {
  silu,     ///< The function x / (1 + e^-x).
  identity  ///< No function.
};
template <>
struct Names<VectorActivation> {
  using enum VectorActivation;
  static constexpr Choice<VectorActivation> list[] = {{"silu", silu}, {"identity", identity}};
};

/// Kind of the factors that multiply a state.
enum class DeltaFactorKind {
  householder,  ///< Factors I - beta k k^T.
  /// Factors I - beta k (k * a)^T, with a learned removal a in (0, 1) for each entry of a key, as in RWKV-7
  /// (Peng et al., 2025, arXiv 2503.14456).
  rwkv7
};
template <>
struct Names<DeltaFactorKind> {
  using enum DeltaFactorKind;
  static constexpr Choice<DeltaFactorKind> list[] = {{"householder", householder}, {"rwkv7", rwkv7}};
};

/// Options of a DeltaProductLayer. With one factor it is DeltaNet, with decay as well Gated DeltaNet.
struct DeltaProductCell {
  static constexpr const char* name = "deltaproduct";  ///< Name in files and on the command line.
  /// Layer that these options make.
  template <class T>
  using Layer = DeltaProductLayer<T>;
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.reads_symbols = true, .is_recurrence = true};
  /// Number N of outputs of a step, 1 or more.
  Index hidden_size = 128;
  /// Number H of heads, 1 to 65,536. Each has a state, keys and values of its own.
  Index heads = 4;
  /// Size K of a key, 1 to 65,536.
  Index key_size = 32;
  /// Size V of a value, 1 to 65,536.
  Index value_size = 32;
  /// Number n of factors of a step, 1 to 64, each with a key and a value.
  Index householder = 2;
  /// Kind of the factors.
  DeltaFactorKind factor = DeltaFactorKind::householder;
  /// Limit of the step sizes beta, above 0 and up to 2: 1 allows projections, 2 reflections.
  double beta_limit = 2;
  /// Number added to the projection p of a step size, beta = beta_limit sigma(p + beta_offset). With 20 all
  /// step sizes are the limit, in fp32.
  double beta_offset = 0;
  /// Function of queries, keys and values.
  VectorActivation vector_activation = VectorActivation::silu;
  /// Whether states decay by learned amounts at each step.
  bool state_decay = false;
  /// Whether the state in which every sequence starts is learned; otherwise it is 0.
  bool learn_initial_state = false;
  /// Whether there are no values: factors then only turn the learned initial state.
  bool without_values = false;
  /// Number of steps that a causal convolution of queries, keys and values sees, 1 to 64; 0 for none.
  Index convolution = 0;
  /// Norm of the numbers that a head reads from its state.
  ReadoutNorm readout_norm = ReadoutNorm::rms;
  /// Number above 0 that is added to the mean square of the norm.
  double norm_epsilon = 1e-5;
  /// Whether the numbers that are read are multiplied by SiLU of a projection.
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
  /// Number of outputs of a step, whatever the number of inputs.
  Index output_size(Index) const { return hidden_size; }
};

/// A layer of DeltaProduct (docs/math.md, section 5.6; Siems et al., NeurIPS 2025, arXiv 2502.10297). For
/// each step, with p = W x + b:
///
///     z = p, or its convolution with the steps before (causal, each channel by itself)
///     q, k_1 .. k_n, v_1 .. v_n = f(z), f = SiLU or 1; each q and k is divided by its norm (0 stays 0)
///     (without values they are 0)
///     beta = limit * sigma(p + offset), log decay = -exp(A) softplus(p)
///     o = delta_product(q, k, v, beta, log decay)   (scale 1)
///     y = R (g o / sqrt(mean(o^2) + epsilon) * SiLU(p)), the mean over the V numbers of a head
///
/// With factors of the kind rwkv7, the delta product also has removals a = sigma(p), and each row of a state
/// has a decay of its own: log decay = -e^(-1/2) sigma(p). Such a factor may have a norm above 1.
///
/// The parameters are
///
/// - PREFIX/input_weights [M, K] and PREFIX/input_bias [M]: W and b, with rows as in DeltaHeads;
/// - PREFIX/filters [window, channels]: the convolution, with the filter of the step itself last;
/// - PREFIX/decay_rates [H]: A, for factors of the kind householder;
/// - PREFIX/norm_gain [V]: g;
/// - PREFIX/output_weights [N, H V]: R;
/// - PREFIX/initial_state [H, K, V]: the state in which every sequence starts, if it is learned.
///
/// The states are S [B, H, K, V] and, with a convolution, its last window - 1 inputs
/// [B, window - 1, channels].
///
/// Whole sequences go through chunks where the device has that form; a step and a short sequence go through
/// the recurrence. On a GPU, 64 or more states (H times sequences) with K and V of at most 16 and without
/// decay also go through the recurrence. The two forms agree up to rounding. Factors of the kind rwkv7 have
/// the recurrence alone.
///
/// On a GPU in bf16, queries, keys, values and the numbers that are read from the states are bfloat16 in
/// chunks; projections, step sizes, states and parameters stay float.
template <class T>
class DeltaProductLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set; -1 for a parameter that it does not have.
  struct Places {
    Index input_weights = -1,  ///< Number of W.
        input_bias = -1,       ///< Number of b.
        filters = -1,          ///< Number of the convolution's filters.
        decay_rates = -1,      ///< Number of A.
        norm_gain = -1,        ///< Number of g.
        output_weights = -1,   ///< Number of R.
        initial_state = -1;    ///< Number of the learned initial state.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for options
  /// outside their domains, ShapeError for more numbers than fit in 63 bits.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix,
                               const DeltaProductCell& options, Index input_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  DeltaProductLayer(ParameterSet<T>& parameters, const std::string& prefix, const DeltaProductCell& options,
                    Index input_size, const Execution& execution = {});
  ~DeltaProductLayer() override;

  Index state_count() const override { return window_ > 1 ? 2 : 1; }
  Shape state_shape(Index i, Index batch) const override;
  std::string state_name(Index i) const override { return i == 0 ? "s" : "convolution"; }

  /// Draws W from N(0, 1 / K), R from N(0, 1 / (H V)), a learned initial state from N(0, 1) and filters from
  /// U(-1 / sqrt(window), 1 / sqrt(window)); g = 1, b = 0. With decay, as Gated DeltaNet, it draws exp(A)
  /// from U(0, 16), and b such that softplus(b) is 1e-3 to 1e-1, uniform in its logarithm. With decays of
  /// rows, b is such that -log decay is 1e-3 to 1e-1, uniform in its logarithm.
  void initialize(std::uint64_t seed) override;
  LayerDescription describe(Index length, Index batch) const override;

  /// Beginning of the names of the layer's parameters, without a '/' at its end.
  std::string prefix() const { return this->prefix_of(places_.input_weights); }
  /// Input that the layer's last forward on `saved` gave to delta_product, [T B, ..] in the layout of
  /// TokenLayout::time_major. Its initial states are the learned one [1, H, K, V], which all sequences share,
  /// or none. Valid until the forward is popped. Throws ValueError where there is no such forward, and for a
  /// forward whose vectors are bfloat16.
  DeltaProductInput<T> factors(const Saved& saved) const;

 private:
  void run_initial_state(States<T> states) const override;
  void start_from_learned(TensorView<T> states) const;
  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;

  DeltaPlan plan(Index length, Index batch) const;
  DeltaProductOptions delta_options(Index length, Index batch) const;
  /// For vectors of X.
  template <class X>
  TensorView<const T> forward_with(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                   Saved& saved) const;
  template <class X>
  void backward_with(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                     Saved& saved, Saved& scratch) const;
  /// What `read_projections` made of the rows [window - 1 + T, B, M], from its gradients `d` to those of the
  /// input. d_rows [T, B, M] has the gradients of gates alone before.
  template <class X>
  void projections_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                            TensorView<const T> rows, const DeltaVectors<const T, const X>& read,
                            const DeltaVectors<const T, const X>& d, TensorView<T> d_rows,
                            Saved& scratch) const;
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
