#include "orthornn/layers/orthogonal_layer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/set_zero.hpp"
#include "layers/affine_map.hpp"
#include "layers/copy_to_rows.hpp"
#include "layers/initialization.hpp"
#include "linalg/column_sums.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/linalg/orthogonality.hpp"

namespace orthornn {
namespace {

/// No value for a free matrix.
std::optional<StiefelKind> kind_of(InputMatrix matrix) {
  switch (matrix) {
    case InputMatrix::free:
      return std::nullopt;
    case InputMatrix::stiefel:
      return StiefelKind::truncated_cwy;
    case InputMatrix::own:
      return StiefelKind::weight_normalization;
    case InputMatrix::matrix:
      break;
  }
  return StiefelKind::matrix;
}

}  // namespace

template <class T>
typename OrthogonalLayer<T>::Places OrthogonalLayer<T>::add_parameters(ParameterSet<T>& parameters,
                                                                       const std::string& prefix,
                                                                       const OrthogonalCell& options,
                                                                       Index input_size) {
  if (input_size < 1) throw ValueError(fmt::format("input size {}; expected at least 1", input_size));
  const Index n = options.hidden_size;
  const Parameter transition = parameter_of(options.transition, n);
  const std::optional<StiefelKind> stiefel = kind_of(options.input_matrix);
  if (stiefel && input_size > n) {
    throw ValueError(
        fmt::format("a Stiefel input matrix of {} inputs and hidden size {}; expected no more inputs "
                    "than the hidden size",
                    input_size, n));
  }
  Places places;
  places.transition = parameters.add(prefix + "/" + transition.name, transition.shape, transition.kind);
  const Parameter input = stiefel ? stiefel_parameter(*stiefel, n, input_size)
                                  : Parameter{"weights", {n, input_size}, ParameterKind::ordinary, 0};
  places.input = parameters.add(prefix + "/input_" + input.name, input.shape, input.kind);
  places.bias = parameters.add(prefix + "/bias", {n});
  if (options.activation == Activation::modrelu)
    places.modrelu_bias = parameters.add(prefix + "/modrelu_bias", {n});
  if (options.learn_initial_state) places.initial_state = parameters.add(prefix + "/initial_state", {n});
  return places;
}

template <class T>
OrthogonalLayer<T>::OrthogonalLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                    const OrthogonalCell& options, Index input_size,
                                    const Execution& execution)
    : Layer<T>(parameters, input_size, options.hidden_size),
      options_(options),
      places_(add_parameters(parameters, prefix, options, input_size)),
      transition_(make_transition<T>(options.transition, options.hidden_size, execution)),
      input_map_(std::make_unique<AffineMap<T>>(input_size, options.hidden_size, execution)) {
  this->parameters_added();
  if (const std::optional<StiefelKind> stiefel = kind_of(options.input_matrix))
    stiefel_ = make_stiefel_point<T>(*stiefel, options.hidden_size, input_size, execution);
}

template <class T>
OrthogonalLayer<T>::~OrthogonalLayer() = default;

template <class T>
void OrthogonalLayer<T>::initialize(std::uint64_t seed) {
  transition_->initialize(seed, this->parameters_.value(places_.transition));
  if (stiefel_) {
    stiefel_->initialize(seed + 1, this->parameters_.value(places_.input));
  } else {
    RandomStream random(seed, RandomPurpose::initialization, 1);
    draw_normal<T>(this->parameters_.value(places_.input),
                   std::sqrt(2.0 / static_cast<double>(this->input_size())), random);
  }
  set_zero(this->parameters_.value(places_.bias));
  if (places_.initial_state >= 0) set_zero(this->parameters_.value(places_.initial_state));
  if (places_.modrelu_bias >= 0) {
    RandomStream random(seed, RandomPurpose::initialization, 2);
    draw_uniform<T>(this->parameters_.value(places_.modrelu_bias), 0.01, random);
  }
}

template <class T>
TensorView<const T> OrthogonalLayer<T>::input_weights() const {
  return stiefel_ ? stiefel_->omega() : this->value(places_.input);
}

template <class T>
void OrthogonalLayer<T>::run_prepare() {
  transition_->prepare(this->value(places_.transition));
  if (stiefel_) stiefel_->prepare(this->value(places_.input));
  input_map_->forget();
}

template <class T>
void OrthogonalLayer<T>::run_initial_state(States<T> states) const {
  if (places_.initial_state < 0) return set_zero(states[0]);
  copy_to_rows<T>(this->value(places_.initial_state), states[0]);
}

template <class T>
std::optional<Index> OrthogonalLayer<T>::launches(Index length, Index batch) const {
  if (!transition_->recordable() || (stiefel_ && !stiefel_->recordable())) return std::nullopt;
  return launches_of_rollout(*transition_, length, batch);
}

template <class T>
LayerDescription OrthogonalLayer<T>::describe(Index length, Index batch) const {
  return {.kind = name_of(options_.transition),
          .input_size = this->input_size(),
          .output_size = options_.hidden_size,
          .form = transition_->form(),
          .rollout = name_of(rollout_way(*transition_, length, batch))};
}

template <class T>
std::optional<double> OrthogonalLayer<T>::orthogonality_error() {
  return orthornn::orthogonality_error<T>(applied_.of(*transition_));
}

template <class T>
TensorView<const T> OrthogonalLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                                    States<T> last, Saved& saved) const {
  const Index length = input.length(), batch = input.batch(), n = options_.hidden_size;
  // 1. What the backward reads.
  const TensorView<T> states = saved.push<T>({length + 1, batch, n});
  const Index signs = options_.activation == Activation::abs ? n : 0;
  const RolloutMemory<T> memory{.z = saved.push<T>({length, batch, transition_->coefficient_count()}),
                                .signs = saved.push<std::int8_t>({length, batch, signs}),
                                .y = {}};
  // 2. h_0, and W x_t + b for all steps.
  const TensorView<T> initial = states[0];
  start.empty() ? run_initial_state(States<T>(&initial, 1)) : copy<T>(start[0], initial);
  const TensorView<T> outputs = states.slice(1, length);
  input_map_->forward(input, input_weights(), this->value(places_.bias), outputs, saved);
  // 3. The recurrence.
  const Saved::Scope scope(saved);
  const TensorView<T> h_last = last.empty() ? saved.push<T>({batch, n}) : last[0];
  const TensorView<const T> modrelu_bias =
      places_.modrelu_bias < 0 ? TensorView<const T>() : this->value(places_.modrelu_bias);
  rollout_forward<T>(*transition_, options_.activation, modrelu_bias, input.lengths,
                     {.h_0 = initial, .inputs = outputs, .outputs = outputs, .h_last = h_last}, memory,
                     records_);
  return outputs;
}

template <class T>
void OrthogonalLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                      bool own_start, Saved& saved, Saved& scratch) const {
  const Index length = input.length(), batch = input.batch(), n = options_.hidden_size;
  // 1. What the forward left, the last first.
  const TensorView<const T> states = saved.top<T>(2), outputs = states.slice(1, length);
  const RolloutMemory<T> memory{.z = saved.top<T>(1),
                                .signs = saved.top<std::int8_t>(0),
                                .y = scratch.push<T>({length, batch, transition_->coefficient_count()})};
  // 2. The recurrence; the gradients g_t take the place of those that arrive.
  const TensorView<T> g = arguments.d_output;
  const TensorView<const T> arriving = arguments.d_output_is_zero ? TensorView<const T>() : g;
  const TensorView<T> d_h_0 = arguments.d_start.empty() ? scratch.push<T>({batch, n}) : arguments.d_start[0];
  const TensorView<const T> d_h_last = arguments.d_last.empty() ? TensorView<const T>() : arguments.d_last[0];
  rollout_backward<T>(
      *transition_, options_.activation, input.lengths,
      {.outputs = outputs, .d_outputs = arriving, .d_h_last = d_h_last, .d_inputs = g, .d_h_0 = d_h_0},
      memory, records_);
  if (places_.initial_state >= 0) {
    const TensorView<T> gradient = this->gradient(places_.initial_state);
    own_start ? sum_rows<T>(d_h_0, gradient, scratch) : set_zero(gradient);
  }
  // 3. The parameters, from the gradients of all steps at once.
  const auto coefficients = [&](TensorView<const T> c) {
    const Index count = transition_->coefficient_count();
    return MatrixView<const T>{c.data(), count, length * batch, count, c.device()};
  };
  transition_->backward_of_rollout(columns_of(TensorView<const T>(g)), columns_of(states.slice(0, length)),
                                   coefficients(memory.z), coefficients(memory.y),
                                   this->gradient(places_.transition));
  const TensorView<T> d_weights =
      stiefel_ ? scratch.push<T>({n, this->input_size()}) : this->gradient(places_.input);
  const bool has_modrelu = places_.modrelu_bias >= 0;
  input_map_->backward(input, input_weights(), g,
                       {.weights = d_weights,
                        .bias = this->gradient(places_.bias),
                        .signed_bias = has_modrelu ? this->gradient(places_.modrelu_bias) : TensorView<T>(),
                        .states = outputs,
                        .input = arguments.d_input,
                        .mode = arguments.input},
                       scratch);
  if (stiefel_) stiefel_->backward(d_weights, this->gradient(places_.input));
}

template class OrthogonalLayer<float>;
template class OrthogonalLayer<double>;

}  // namespace orthornn
