#include "orthornn/cells/orthogonal_cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cells/input_product.hpp"
#include "core/back_end.hpp"
#include "core/fill_on_host.hpp"
#include "core/set_zero.hpp"
#include "cuda/cells/input_product.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/linalg/orthogonality.hpp"

namespace orthornn {
namespace {

/// Every row of rows [B, N] <- vector [N].
template <class T>
void copy_to_rows(TensorView<const T> vector, TensorView<T> rows) {
  if constexpr (has_cuda_bodies) {
    if (rows.device().is_cuda()) return cuda::fill_with_bias<T>(vector, rows);
  }
  for (Index b = 0; b < rows.shape()[0]; ++b) std::copy(vector.begin(), vector.end(), rows[b].begin());
}

/// sum [N] <- the sum of rows [B, N].
template <class T>
void sum_rows(TensorView<const T> rows, TensorView<T> sum) {
  if constexpr (has_cuda_bodies) {
    if (rows.device().is_cuda()) return cuda::sum_columns<T>(rows, {.total = sum});
  }
  for (Index n = 0; n < sum.size(); ++n) {
    double total = 0;
    for (Index b = 0; b < rows.shape()[0]; ++b) total += static_cast<double>(rows(b, n));
    sum(n) = static_cast<T>(total);
  }
}

}  // namespace

template <class T>
typename RecurrentLayer<T>::Places RecurrentLayer<T>::add_parameters(ParameterSet<T>& parameters,
                                                                     const std::string& prefix,
                                                                     const OrthogonalCell& options,
                                                                     Index input_size) {
  if (input_size < 1) throw ValueError(fmt::format("input size {}; expected at least 1", input_size));
  const Index n = options.hidden_size;
  const Parameter transition = parameter_of(options.transition, n);
  if (options.input_matrix == InputMatrix::stiefel && input_size > n) {
    throw ValueError(
        fmt::format("a Stiefel input matrix of {} inputs and hidden size {}; expected no more inputs "
                    "than the hidden size",
                    input_size, n));
  }
  Places places;
  places.transition = parameters.add(prefix + "/" + transition.name, transition.shape, transition.kind);
  places.input =
      options.input_matrix == InputMatrix::stiefel
          ? parameters.add(prefix + "/input_reflection_vectors", {input_size, n}, ParameterKind::orthogonal)
          : parameters.add(prefix + "/input_weights", {n, input_size});
  places.bias = parameters.add(prefix + "/bias", {n});
  if (options.activation == Activation::modrelu)
    places.modrelu_bias = parameters.add(prefix + "/modrelu_bias", {n});
  if (options.learn_initial_state) places.initial_state = parameters.add(prefix + "/initial_state", {n});
  return places;
}

template <class T>
RecurrentLayer<T>::RecurrentLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                  const OrthogonalCell& options, Index input_size, const Execution& execution)
    : parameters_(parameters),
      options_(options),
      input_size_(input_size),
      places_(add_parameters(parameters, prefix, options, input_size)),
      transition_(make_transition<T>(options.transition, options.hidden_size, execution)),
      input_product_(std::make_unique<InputProduct<T>>(options.hidden_size, input_size, execution)),
      states_(Shape{0}, execution.device),
      last_state_(Shape{0}, execution.device),
      d_states_(Shape{0}, execution.device),
      d_initial_state_(Shape{0}, execution.device),
      d_input_weights_(Shape{0}, execution.device) {
  if (options.input_matrix != InputMatrix::stiefel) return;
  stiefel_.emplace(options.hidden_size, input_size, execution);
  d_input_weights_.resize({options.hidden_size, input_size});
}

template <class T>
RecurrentLayer<T>::~RecurrentLayer() = default;

template <class T>
TensorView<T> RecurrentLayer<T>::d_outputs() {
  d_states_.reserve(outputs().shape());
  return d_states_;
}

template <class T>
void RecurrentLayer<T>::initialize(std::uint64_t seed) {
  transition_->initialize(seed, parameters_.value(places_.transition));
  if (stiefel_) {
    stiefel_->initialize(seed + 1, parameters_.value(places_.input));
  } else {
    fill_on_host(parameters_.value(places_.input), [&](TensorView<T> weights) {
      RandomStream random(seed, RandomPurpose::initialization, 1);
      const double deviation = std::sqrt(2.0 / static_cast<double>(input_size_));
      for (T& w : weights) w = static_cast<T>(deviation * random.normal());
    });
  }
  set_zero(parameters_.value(places_.bias));
  if (places_.initial_state >= 0) set_zero(parameters_.value(places_.initial_state));
  if (places_.modrelu_bias >= 0) {
    fill_on_host(parameters_.value(places_.modrelu_bias), [&](TensorView<T> bias) {
      RandomStream random(seed, RandomPurpose::initialization, 2);
      for (T& m : bias) m = static_cast<T>(random.uniform(-0.01, 0.01));
    });
  }
}

template <class T>
TensorView<const T> RecurrentLayer<T>::input_weights() const {
  return stiefel_ ? stiefel_->omega() : std::as_const(parameters_).value(places_.input);
}

template <class T>
void RecurrentLayer<T>::prepare() {
  const ParameterSet<T>& parameters = parameters_;
  transition_->prepare(parameters.value(places_.transition));
  if (stiefel_) stiefel_->prepare(parameters.value(places_.input));
  input_product_->forget();
  prepared_ = true;
}

template <class T>
void RecurrentLayer<T>::check_input(const SequenceInput<T>& input,
                                    TensorView<const std::int32_t> lengths) const {
  const Index length = input.length();
  const Index batch = input.batch();
  if (length < 1 || batch < 1) {
    throw ShapeError(
        fmt::format("an input of {} steps and {} sequences; expected at least one of each", length, batch));
  }
  if (!input.vectors.empty()) check_shape("input", input.vectors.shape(), {length, batch, input_size_});
  if (!lengths.empty()) check_shape("lengths", lengths.shape(), {batch});
  if constexpr (has_cuda_bodies) {
    if (lengths.device().is_cuda()) return cuda::check_lengths(lengths, length);
    if (input.symbols.device().is_cuda()) return;
  }
  for (const std::int32_t symbol : input.symbols) {
    if (symbol < 0 || symbol >= input_size_) {
      throw ValueError(fmt::format("input symbol {}; expected 0 to {}", symbol, input_size_ - 1));
    }
  }
  for (const std::int32_t live : lengths) {
    if (live < 0 || live > length) throw ValueError(fmt::format("length {}; expected 0 to {}", live, length));
  }
}

template <class T>
void RecurrentLayer<T>::initial_state(TensorView<T> h0) const {
  check_shape("initial state", h0.shape(), {h0.shape()[0], options_.hidden_size});
  if (places_.initial_state < 0) return set_zero(h0);
  copy_to_rows<T>(std::as_const(parameters_).value(places_.initial_state), h0);
}

template <class T>
void RecurrentLayer<T>::forward(const SequenceInput<T>& input, ConstTensorView<T> h0,
                                TensorView<const std::int32_t> lengths) {
  if (!prepared_) throw ValueError("a cell was run before prepare()");
  check_input(input, lengths);
  const Index batch = input.batch();
  const Index n = options_.hidden_size;
  states_.reserve({input.length() + 1, batch, n});
  last_state_.reserve({batch, n});
  const TensorView<T> initial = states_.view()[0];
  starts_from_own_state_ = h0.empty();
  if (starts_from_own_state_) {
    initial_state(initial);
  } else {
    check_shape("initial state", h0.shape(), initial.shape());
    copy<T>(h0, initial);
  }
  input_product_->forward(input, input_weights(), std::as_const(parameters_).value(places_.bias),
                          states_.view().slice(1, input.length()));
  const TensorView<const T> modrelu_bias = places_.modrelu_bias < 0
                                               ? TensorView<const T>()
                                               : std::as_const(parameters_).value(places_.modrelu_bias);
  rollout_forward<T>(*transition_, options_.activation, modrelu_bias, lengths, states_, last_state_, cache_);
}

template <class T>
void RecurrentLayer<T>::backward(const SequenceInput<T>& input, ConstTensorView<T> d_h_last,
                                 TensorView<const std::int32_t> lengths, TensorView<T> d_input) {
  const Index length = input.length();
  check_shape("outputs of the input that backward was given", {length, input.batch(), options_.hidden_size},
              d_states_.shape());
  check_shape("outputs of the last forward", outputs().shape(), d_states_.shape());
  if (!d_h_last.empty()) check_shape("d_h_last", d_h_last.shape(), last_state_.shape());
  if (!lengths.empty()) check_shape("lengths", lengths.shape(), {input.batch()});
  if (!d_input.empty()) check_shape("d_input", d_input.shape(), {length, input.batch(), input_size_});
  d_initial_state_.reserve({input.batch(), options_.hidden_size});
  rollout_backward<T>(*transition_, options_.activation, lengths, states_, d_h_last, d_states_,
                      d_initial_state_, cache_);
  if (places_.initial_state >= 0) {
    const TensorView<T> gradient = parameters_.gradient(places_.initial_state);
    starts_from_own_state_ ? sum_rows<T>(d_initial_state_, gradient) : set_zero(gradient);
  }
  const auto coefficients = [&](const Tensor<T>& c) {
    const Index count = transition_->coefficient_count();
    return MatrixView<const T>{c.data(), count, length * input.batch(), count, c.device()};
  };
  transition_->backward_of_rollout(
      columns_of(std::as_const(d_states_)), columns_of(std::as_const(states_).view().slice(0, length)),
      coefficients(cache_.z), coefficients(cache_.y), parameters_.gradient(places_.transition));
  const TensorView<T> d_weights = stiefel_ ? d_input_weights_.view() : parameters_.gradient(places_.input);
  input_product_->backward(
      input, input_weights(), d_states_, outputs(),
      {.weights = d_weights,
       .bias = parameters_.gradient(places_.bias),
       .modrelu_bias =
           places_.modrelu_bias < 0 ? TensorView<T>() : parameters_.gradient(places_.modrelu_bias),
       .input = d_input});
  if (stiefel_) stiefel_->backward(d_input_weights_, parameters_.gradient(places_.input));
}

template <class T>
double RecurrentLayer<T>::orthogonality_error() {
  return orthornn::orthogonality_error<T>(applied_.of(*transition_));
}

template class RecurrentLayer<float>;
template class RecurrentLayer<double>;

}  // namespace orthornn
