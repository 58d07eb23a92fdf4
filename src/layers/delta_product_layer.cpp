#include "orthornn/layers/delta_product_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/live_steps.hpp"
#include "core/set_zero.hpp"
#include "delta/delta_plan.hpp"
#include "layers/affine_map.hpp"
#include "layers/copy_to_rows.hpp"
#include "layers/delta_outputs.hpp"
#include "layers/delta_projections.hpp"
#include "layers/initialization.hpp"
#include "layers/short_convolution.hpp"
#include "linalg/column_sums.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// What a forward leaves for its backward, below what the delta product leaves.
template <class T, class X>
struct KeptTensors {
  TensorView<T> rows;  // [window - 1 + T, B, M]
  DeltaVectors<T, X> read;
  TensorView<X> readout;  // [T B, H, V]
  TensorView<T> outputs;  // [T, B, H V]

  /// Tensor by tensor, take(U(), shape) pushes it or finds it where a forward has left it.
  template <class Take>
  KeptTensors(const DeltaHeads& h, Index window, Index length, Index batch, Take&& take) {
    const Index steps = Shape{length, batch}.count();
    rows = take(T(), {window - 1 + length, batch, h.width()});
    read = take_vectors(h, steps, take);
    readout = take(X(), {steps, h.heads, h.value});
    outputs = take(T(), {length, batch, h.outputs()});
  }
  template <class Take>
  static DeltaVectors<T, X> take_vectors(const DeltaHeads& h, Index steps, Take&& take) {
    const Shape keys{steps, h.factors, h.heads, h.key};
    DeltaVectors<T, X> v{.queries = take(X(), {steps, h.heads, h.key}),
                         .keys = take(X(), keys),
                         .values = take(X(), {steps, h.factors, h.heads, h.value}),
                         .betas = take(T(), {steps, h.factors, h.heads})};
    if (h.decay) v.log_decays = take(T(), h.removal ? Shape{steps, h.heads, h.key} : Shape{steps, h.heads});
    if (h.removal) v.removals = take(X(), keys);
    return v;
  }

  DeltaProductInput<X> input(TensorView<const T> initial_states) const {
    return {.queries = read.queries,
            .keys = read.keys,
            .values = read.values,
            .betas = read.betas,
            .log_decays = read.log_decays,
            .removals = read.removals,
            .initial_states = initial_states};
  }
};

auto pushing(Saved& saved) {
  return [&saved]<class U>(U, const Shape& shape) { return saved.push<U>(shape); };
}
/// Finds the tensors from number `first` of the stack on.
auto finding(const Saved& saved, Index first) {
  return [&saved, next = first]<class U>(U, const Shape&) mutable {
    return saved.top<U>(saved.size() - 1 - next++);
  };
}

template <class T, class X>
DeltaVectors<const T, const X> constant(const DeltaVectors<T, X>& v) {
  return {v.queries, v.keys, v.values, v.betas, v.log_decays, v.removals};
}

template <class T>
TensorView<T> state_or_none(States<T> states, std::size_t i) {
  return states.empty() ? TensorView<T>() : states[i];
}

}  // namespace

DeltaHeads::DeltaHeads(const DeltaProductCell& cell)
    : DeltaSizes{.factors = cell.householder,
                 .heads = cell.heads,
                 .key = cell.key_size,
                 .value = cell.value_size},
      gate(cell.output_gate),
      decay(cell.state_decay),
      removal(cell.factor == DeltaFactorKind::rwkv7),
      writes(!cell.without_values) {}

template <class T>
typename DeltaProductLayer<T>::Places DeltaProductLayer<T>::add_parameters(ParameterSet<T>& parameters,
                                                                           const std::string& prefix,
                                                                           const DeltaProductCell& options,
                                                                           Index input_size) {
  if (input_size < 1)
    throw ValueError(fmt::format("{}: {} inputs; expected at least 1", DeltaProductCell::name, input_size));
  check_fields<T>(DeltaProductCell::name, options);
  if (options.without_values && !options.learn_initial_state) {
    throw ValueError(fmt::format(
        "{}: without values a state that starts as zeros stays so; expected a learned initial state",
        DeltaProductCell::name));
  }
  const DeltaHeads heads(options);
  Places places{.input_weights = parameters.add(prefix + "/input_weights", {heads.width(), input_size}),
                .input_bias = parameters.add(prefix + "/input_bias", {heads.width()})};
  if (options.convolution > 0)
    places.filters = parameters.add(prefix + "/filters", {options.convolution, heads.channels()});
  if (heads.decay && !heads.removal)
    places.decay_rates = parameters.add(prefix + "/decay_rates", {heads.heads});
  if (options.readout_norm == ReadoutNorm::rms)
    places.norm_gain = parameters.add(prefix + "/norm_gain", {heads.value});
  places.output_weights = parameters.add(prefix + "/output_weights", {options.hidden_size, heads.outputs()});
  if (options.learn_initial_state)
    places.initial_state = parameters.add(prefix + "/initial_state", {heads.heads, heads.key, heads.value});
  return places;
}

template <class T>
DeltaProductLayer<T>::DeltaProductLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                        const DeltaProductCell& options, Index input_size,
                                        const Execution& execution)
    : Layer<T>(parameters, input_size, options.hidden_size),
      options_(options),
      execution_(execution),
      heads_(options),
      window_(std::max<Index>(1, options.convolution)),
      places_(add_parameters(parameters, prefix, options, input_size)),
      input_map_(std::make_unique<AffineMap<T>>(input_size, heads_.width(), execution)),
      output_map_(std::make_unique<AffineMap<T>>(heads_.outputs(), options.hidden_size, execution)) {
  this->parameters_added();
}

template <class T>
DeltaProductLayer<T>::~DeltaProductLayer() = default;

template <class T>
Shape DeltaProductLayer<T>::state_shape(Index i, Index batch) const {
  if (i == 0) return {batch, heads_.heads, heads_.key, heads_.value};
  return {batch, window_ - 1, heads_.channels()};
}

template <class T>
void DeltaProductLayer<T>::initialize(std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::initialization, 6);
  const auto value_at = [this](Index place) { return this->parameters_.value(place); };
  draw_normal<T>(value_at(places_.input_weights), 1 / std::sqrt(static_cast<double>(this->input_size())),
                 random);
  draw_normal<T>(value_at(places_.output_weights), 1 / std::sqrt(static_cast<double>(heads_.outputs())),
                 random);
  if (places_.initial_state >= 0) draw_normal<T>(value_at(places_.initial_state), 1, random);
  if (places_.filters >= 0) {
    draw_uniform<T>(value_at(places_.filters), 1 / std::sqrt(static_cast<double>(options_.convolution)),
                    random);
  }
  if (places_.norm_gain >= 0) set_one<T>(value_at(places_.norm_gain));
  if (places_.decay_rates >= 0) {
    fill_on_host(value_at(places_.decay_rates), [&](TensorView<T> rates) {
      for (T& rate : rates) rate = static_cast<T>(std::log(16 * (1 - random.uniform(0, 1))));
    });
  }
  fill_on_host(value_at(places_.input_bias), [&](TensorView<T> bias) {
    std::fill(bias.begin(), bias.end(), T{0});
    for (Index i = heads_.first_decay(); i < heads_.first_removal(); ++i) {
      const double amount = std::exp(random.uniform(std::log(1e-3), std::log(1e-1)));
      // Of which it is softplus, or e^(-1/2) sigma.
      bias(i) = static_cast<T>(heads_.removal ? std::log(amount / (largest_row_decay - amount))
                                              : std::log(std::expm1(amount)));
    }
  });
}

template <class T>
void DeltaProductLayer<T>::run_initial_state(States<T> states) const {
  for (const TensorView<T>& state : states) set_zero(state);
  if (places_.initial_state >= 0) start_from_learned(states[0]);
}

/// states [B, H, K, V] <- the learned state.
template <class T>
void DeltaProductLayer<T>::start_from_learned(TensorView<T> states) const {
  const TensorView<const T> learned = this->value(places_.initial_state);
  copy_to_rows<T>(learned.reshaped({learned.size()}), states.reshaped({states.shape()[0], learned.size()}));
}

template <class T>
void DeltaProductLayer<T>::run_prepare() {
  input_map_->forget();
  output_map_->forget();
}

template <class T>
LayerDescription DeltaProductLayer<T>::describe(Index length, Index batch) const {
  return {.kind = DeltaProductCell::name,
          .input_size = this->input_size(),
          .output_size = this->output_size(),
          .form = name_of(plan(length, batch).form)};
}

template <class T>
DeltaProductInput<T> DeltaProductLayer<T>::factors(const Saved& saved) const {
  const Saved::Frame& frame = saved.frame_of(this);
  if (plan(frame.length, frame.batch).rounds_vectors)
    throw ValueError("queries, keys and values were rounded to bfloat16; run the layer in fp32 or tf32");
  const KeptTensors<T, T> kept(heads_, window_, frame.length, frame.batch, finding(saved, frame.first + 1));
  if (places_.initial_state < 0 || !frame.own_start) return kept.input({});
  return kept.input(this->value(places_.initial_state).reshaped(state_shape(0, 1)));
}

template <class T>
DeltaPlan DeltaProductLayer<T>::plan(Index length, Index batch) const {
  return plan_delta_product<T>({.sizes = heads_,
                                .plain = !heads_.decay && !heads_.removal,
                                .recurrent = heads_.removal,
                                .length = length,
                                .batch = batch},
                               execution_);
}

template <class T>
DeltaProductOptions DeltaProductLayer<T>::delta_options(Index length, Index batch) const {
  const DeltaPlan plan_of_batch = plan(length, batch);
  return {.form = plan_of_batch.form, .precision = plan_of_batch.precision};
}

template <class T>
const TokenLayout& DeltaProductLayer<T>::layout(Index length, Index batch) const {
  // More shapes than a training alternates between are those of ever new sequences.
  constexpr std::size_t most_layouts = 128;
  const std::pair sizes(length, batch);
  auto found = layouts_.find(sizes);
  if (found == layouts_.end()) {
    if (layouts_.size() >= most_layouts) layouts_.clear();
    found = layouts_.emplace(sizes, TokenLayout::time_major(length, batch)).first;
  }
  return found->second;
}

template <class T>
DeltaProjections<T> DeltaProductLayer<T>::projections(TensorView<const T> rows,
                                                      const SequenceInput<T>& input) const {
  return {.heads = heads_,
          .length = input.length(),
          .batch = input.batch(),
          .window = window_,
          .rows = rows.data(),
          .filters = value_or_none(places_.filters).data(),
          .decay_rates = value_or_none(places_.decay_rates).data(),
          .lengths = or_null(input.lengths),
          .silu = options_.vector_activation == VectorActivation::silu,
          .beta_limit = static_cast<T>(options_.beta_limit),
          .beta_offset = static_cast<T>(options_.beta_offset)};
}

template <class T>
DeltaReadout<T> DeltaProductLayer<T>::readout(TensorView<const T> rows, const SequenceInput<T>& input) const {
  return {.heads = heads_,
          .length = input.length(),
          .batch = input.batch(),
          .rows = rows.data(),
          .gain = value_or_none(places_.norm_gain).data(),
          .lengths = or_null(input.lengths),
          .epsilon = static_cast<T>(options_.norm_epsilon)};
}

template <class T>
TensorView<const T> DeltaProductLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                                      States<T> last, Saved& saved) const {
  if constexpr (std::is_same_v<T, float>) {
    if (plan(input.length(), input.batch()).rounds_vectors)
      return forward_with<bfloat16>(input, start, last, saved);
  }
  return forward_with<T>(input, start, last, saved);
}

template <class T>
template <class X>
TensorView<const T> DeltaProductLayer<T>::forward_with(const SequenceInput<T>& input, States<const T> start,
                                                       States<T> last, Saved& saved) const {
  const Index length = input.length(), batch = input.batch();
  const TokenLayout& tokens = layout(length, batch);
  const TensorView<T> y = saved.push<T>({length, batch, this->output_size()});
  const KeptTensors<T, X> kept(heads_, window_, length, batch, pushing(saved));
  // 1. All projections.
  const TensorView<T> own_rows = kept.rows.slice(window_ - 1, length);
  input_map_->forward(input, this->value(places_.input_weights), this->value(places_.input_bias), own_rows,
                      saved);
  if (window_ > 1) {
    load_history<T>(state_or_none(start, 1), kept.rows, window_, heads_.channels());
    if (!last.empty()) save_history<T>(kept.rows, input.lengths, last[1]);
  }
  // 2. The states.
  read_projections<T, X>(projections(kept.rows, input), kept.read);
  if (options_.without_values) set_zero(kept.read.values);
  TensorView<const T> first = state_or_none(start, 0);
  if (start.empty() && places_.initial_state >= 0) {
    const TensorView<T> learned = saved.push<T>(state_shape(0, batch));
    start_from_learned(learned);
    first = learned;
  }
  delta_product_forward<X>(kept.input(first), tokens, delta_options(length, batch), kept.readout,
                           state_or_none(last, 0), saved);
  // 3. What is read from them.
  write_outputs<T, X>(readout(own_rows, input), kept.readout, kept.outputs);
  output_map_->forward({.vectors = kept.outputs}, this->value(places_.output_weights), {}, y, saved);
  return y;
}

template <class T>
void DeltaProductLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                        bool own_start, Saved& saved, Saved& scratch) const {
  if constexpr (std::is_same_v<T, float>) {
    if (plan(input.length(), input.batch()).rounds_vectors)
      return backward_with<bfloat16>(input, arguments, own_start, saved, scratch);
  }
  backward_with<T>(input, arguments, own_start, saved, scratch);
}

template <class T>
template <class X>
void DeltaProductLayer<T>::backward_with(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                         bool own_start, Saved& saved, Saved& scratch) const {
  const Index length = input.length(), batch = input.batch(), steps = length * batch;
  const KeptTensors<T, X> kept(heads_, window_, length, batch,
                               finding(saved, saved.last_frame(this).first + 1));
  const TensorView<T> own_rows = kept.rows.slice(window_ - 1, length);
  const TensorView<T> d_rows = scratch.push<T>({length, batch, heads_.width()});
  // 1. What is read from the states.
  const TensorView<X> d_readout = scratch.push<X>(kept.readout.shape());
  {
    const Saved::Scope scope(scratch);
    const TensorView<T> d_outputs = scratch.push<T>(kept.outputs.shape());
    output_map_->backward({.vectors = kept.outputs}, this->value(places_.output_weights), arguments.d_output,
                          {.weights = this->gradient(places_.output_weights), .input = d_outputs}, scratch);
    write_outputs_backward<T, X>(readout(own_rows, input), kept.readout, d_outputs, d_readout, d_rows);
    if (places_.norm_gain >= 0) {
      sum_rows<T>(d_outputs.reshaped({steps * heads_.heads, heads_.value}), this->gradient(places_.norm_gain),
                  scratch);
    }
  }
  // 2. The states. The first ones are not read again.
  const DeltaVectors<T, X> d = KeptTensors<T, X>::take_vectors(heads_, steps, pushing(scratch));
  TensorView<T> d_first = state_or_none(arguments.d_start, 0);
  if (places_.initial_state >= 0 && d_first.empty()) d_first = scratch.push<T>(state_shape(0, batch));
  delta_product_backward<X>(kept.input({}), layout(length, batch), delta_options(length, batch),
                            {.d_outputs = d_readout,
                             .d_final_states = state_or_none(arguments.d_last, 0),
                             .d_queries = d.queries,
                             .d_keys = d.keys,
                             .d_values = d.values,
                             .d_betas = d.betas,
                             .d_log_decays = d.log_decays,
                             .d_removals = d.removals,
                             .d_initial_states = d_first},
                            saved);
  if (places_.initial_state >= 0) {
    const TensorView<T> gradient = this->gradient(places_.initial_state);
    own_start ? sum_rows<T>(d_first.reshaped({batch, gradient.size()}), gradient.reshaped({gradient.size()}),
                            scratch)
              : set_zero(gradient);
  }
  // 3. The projections.
  projections_backward<X>(input, arguments, kept.rows, constant(kept.read), constant(d), d_rows, scratch);
}

template <class T>
template <class X>
void DeltaProductLayer<T>::projections_backward(const SequenceInput<T>& input,
                                                const BackwardArguments<T>& arguments,
                                                TensorView<const T> rows,
                                                const DeltaVectors<const T, const X>& read,
                                                const DeltaVectors<const T, const X>& d, TensorView<T> d_rows,
                                                Saved& scratch) const {
  const Index length = input.length(), batch = input.batch();
  const TensorView<T> d_rates =
      places_.decay_rates >= 0 ? scratch.push<T>({length * batch, heads_.heads}) : TensorView<T>();
  const TensorView<T> d_channels =
      places_.filters >= 0 ? scratch.push<T>({length, batch, heads_.channels()}) : d_rows;
  read_projections_backward<T, X>(projections(rows, input), read, d, d_channels, d_rows, d_rates);
  if (places_.decay_rates >= 0) sum_rows<T>(d_rates, this->gradient(places_.decay_rates), scratch);
  if (places_.filters >= 0) {
    filter_gradient<T>(rows, d_channels, this->gradient(places_.filters), scratch);
    const bool has_history = window_ > 1;
    convolution_backward<T>(d_channels, this->value(places_.filters), input.lengths,
                            has_history ? state_or_none(arguments.d_last, 1) : TensorView<const T>(), d_rows,
                            has_history ? state_or_none(arguments.d_start, 1) : TensorView<T>());
  }
  input_map_->backward(input, this->value(places_.input_weights), d_rows,
                       {.weights = this->gradient(places_.input_weights),
                        .bias = this->gradient(places_.input_bias),
                        .input = arguments.d_input,
                        .mode = arguments.input},
                       scratch);
}

template class DeltaProductLayer<float>;
template class DeltaProductLayer<double>;

}  // namespace orthornn
