#include "orthornn/layers/conv_lstm_layer.hpp"

#include <array>
#include <cmath>
#include <initializer_list>

#include "core/live_steps.hpp"
#include "core/set_zero.hpp"
#include "layers/frame_convolution.hpp"
#include "layers/frames.hpp"
#include "layers/initialization.hpp"
#include "layers/stepwise.hpp"
#include "linalg/column_sums.hpp"
#include "linalg/lanes.hpp"
#include "pointwise/lstm.hpp"

namespace orthornn {

/// What the steps read and write. A pixel is a sequence of the gates' formula, with f units.
template <class T>
struct ConvLstmLayer<T>::Rollout {
  TensorView<const std::int32_t> lengths;          ///< [B H W], or empty
  std::array<TensorView<T>, 2> states = {};        ///< [T + 1, B, N], the first states first.
  TensorView<T> gates = {};                        ///< [T, B, 4 N]
  std::array<TensorView<T>, 2> last = {};          ///< [B, N]
  std::array<TensorView<const T>, 2> d_last = {};  ///< [B, N]
  TensorView<T> d_h = {};                          ///< [T, B, N]
  TensorView<T> d_c = {};                          ///< [B, N]
  TensorView<const T> peepholes = {};              ///< [3, N]

  Index length() const { return gates.shape()[0]; }
  pointwise::GatedStep<T> step(Index t, Index size) const {
    pointwise::GatedStep<T> step{.length = length(),
                                 .step = t,
                                 .size = size,
                                 .lengths = or_null(lengths),
                                 .gates = gates[t].data(),
                                 .peepholes = or_null(peepholes),
                                 .peepholes_of_gate = states[0].shape()[2],
                                 .d_h = d_h.empty() ? nullptr : d_h[t].data(),
                                 .d_c = d_c.data()};
    for (std::size_t i = 0; i < 2; ++i) {
      step.before[i] = states[i][t].data();
      step.after[i] = states[i][t + 1].data();
      step.last[i] = last[i].data();
      step.d_last[i] = d_last[i].data();
    }
    return step;
  }
};

template <class T>
typename ConvLstmLayer<T>::Places ConvLstmLayer<T>::add_parameters(ParameterSet<T>& parameters,
                                                                   const std::string& prefix,
                                                                   const ConvLstm& options,
                                                                   Index input_size) {
  const Index channels = channels_of(options, input_size), f = options.hidden_size;
  const Index gates = Shape{pointwise::Lstm::gates, f}.count(), q = options.kernel_size;
  Places places{};
  places.input = parameters.add(prefix + "/input_kernel", {Shape{q, q, channels}.count(), gates});
  places.hidden = parameters.add(prefix + "/hidden_kernel", {Shape{q, q, f}.count(), gates});
  places.bias = parameters.add(prefix + "/bias", {gates});
  places.peepholes =
      options.peepholes ? parameters.add(prefix + "/peepholes", {3, options.output_size(input_size)}) : -1;
  return places;
}

template <class T>
ConvLstmLayer<T>::ConvLstmLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                const ConvLstm& options, Index input_size, const Execution& execution)
    : Layer<T>(parameters, input_size, options.output_size(input_size)),
      options_(options),
      execution_(execution),
      places_(add_parameters(parameters, prefix, options, input_size)) {
  this->parameters_added();
  maps_ = std::make_unique<FrameMaps<T>>(options, channels_of(options, input_size),
                                         pointwise::Lstm::gates * options.hidden_size, T{1}, execution);
}

template <class T>
ConvLstmLayer<T>::~ConvLstmLayer() = default;

template <class T>
void ConvLstmLayer<T>::initialize(std::uint64_t seed) {
  const Index f = options_.hidden_size;
  RandomStream random(seed, RandomPurpose::initialization, 1);
  const double bound = 1 / std::sqrt(static_cast<double>(options_.kernel_size * options_.kernel_size * f));
  for (const Index place : {places_.input, places_.hidden})
    draw_uniform<T>(this->parameters_.value(place), bound, random);
  const TensorView<T> bias = this->parameters_.value(places_.bias);
  set_zero(bias);
  set_one<T>(bias.slice(f, f));  // the forget gates
  if (places_.peepholes >= 0) set_zero(this->parameters_.value(places_.peepholes));
}

template <class T>
std::optional<Index> ConvLstmLayer<T>::launches(Index length, Index) const {
  return maps_->launches(length);
}

template <class T>
LayerDescription ConvLstmLayer<T>::describe(Index, Index) const {
  LayerDescription found = this->description(ConvLstm::name);
  found.rollout = stepwise_name(execution_, ConvLstm::name);
  return found;
}

template <class T>
TensorView<const std::int32_t> ConvLstmLayer<T>::lengths_of_pixels(const SequenceInput<T>& input,
                                                                   Saved& scratch) const {
  if (input.lengths.empty()) return {};
  const Index pixels = options_.height * options_.width;
  const TensorView<std::int32_t> lengths = scratch.push<std::int32_t>({input.batch(), pixels});
  for_each_entry(lengths.device(), pixels, input.batch(),
                 pointwise::RepeatLengths{input.lengths.data(), lengths.data(), pixels});
  return lengths;
}

template <class T>
TensorView<const T> ConvLstmLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                                  States<T> last, Saved& saved) const {
  const Index length = input.length(), batch = input.batch(), n = this->output_size(),
              f = options_.hidden_size;
  Rollout r;
  for (TensorView<T>& states : r.states) states = saved.push<T>({length + 1, batch, n});
  r.gates = saved.push<T>({length, batch, pointwise::Lstm::gates * n});
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorView<T> first = r.states[i][0];
    start.empty() ? set_zero(first) : copy<T>(start[i], first);
    if (last.empty()) continue;
    r.last[i] = last[i];
    copy<T>(first, last[i]);  // that of a sequence without a step
  }
  const Saved::Scope scope(saved);
  r.lengths = lengths_of_pixels(input, saved);
  if (places_.peepholes >= 0) r.peepholes = this->value(places_.peepholes);
  const TensorView<T> around_x = saved.push<T>(maps_->input.neighbours_shape(batch)),
                      around_h = saved.push<T>(maps_->hidden.neighbours_shape(batch));
  // 1. b + K_x * x_t of all steps.
  maps_->input.apply(this->value(places_.input), this->value(places_.bias), input.vectors, r.gates, around_x);
  // 2. The steps.
  const auto steps = [&] {
    for (Index t = 0; t < length; ++t) {
      maps_->hidden.add(this->value(places_.hidden), r.states[0][t], r.gates[t], around_h);
      for_each_entry_in_lanes<T>(r.gates.device(), f, batch * n / f,
                                 pointwise::GatedForward<T, pointwise::Lstm>{r.step(t, f)});
    }
  };
  run_loop(execution_.device, length * maps_->launches_of_step(), records_,
           {r.lengths.data(), r.states[0].data(), r.states[1].data(), r.gates.data(), r.last[0].data(),
            r.last[1].data(), around_h.data()},
           {length, batch}, steps);
  return r.states[0].slice(1, length);
}

template <class T>
void ConvLstmLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                    bool, Saved& saved, Saved& scratch) const {
  const Index length = input.length(), batch = input.batch(), n = this->output_size(),
              f = options_.hidden_size;
  const TensorView<T> d_input = arguments.d_input;
  Rollout r{.lengths = lengths_of_pixels(input, scratch),
            .states = {saved.top<T>(2), saved.top<T>(1)},
            .gates = saved.top<T>(),
            .d_h = arguments.d_output};
  std::array<TensorView<T>, 2> d_first;
  for (std::size_t i = 0; i < 2; ++i) {
    d_first[i] = arguments.d_start.empty() ? scratch.push<T>({batch, n}) : arguments.d_start[i];
    set_zero(d_first[i]);
    if (!arguments.d_last.empty()) r.d_last[i] = arguments.d_last[i];
  }
  r.d_c = d_first[1];
  const bool has_peepholes = places_.peepholes >= 0;
  if (has_peepholes) {
    r.peepholes = this->value(places_.peepholes);
    set_zero(this->gradient(places_.peepholes));
  }
  const TensorView<T> around_x = scratch.push<T>(maps_->input.neighbours_shape(batch)),
                      around_h = scratch.push<T>(maps_->hidden.neighbours_shape(batch));
  for (const Index place : {places_.input, places_.hidden}) set_zero(this->gradient(place));
  if (!d_input.empty() && arguments.input == Gradients::overwrite) set_zero(d_input);
  // 1. The steps: gates become the gradients of their arguments.
  const auto steps = [&] {
    for (Index t = length - 1; t >= 0; --t) {
      const pointwise::GatedStep<T> step = r.step(t, f);
      for_each_entry_in_lanes<T>(r.gates.device(), f, batch * n / f,
                                 pointwise::GatedBackward<T, pointwise::Lstm>{step});
      if (has_peepholes) {
        for_each(r.gates.device(), n,
                 pointwise::AddPeepholeGradients<T>{step, batch, this->gradient(places_.peepholes).data()});
      }
      maps_->hidden.add_input_gradient(this->value(places_.hidden), r.gates[t],
                                       t > 0 ? r.d_h[t - 1] : d_first[0], around_h);
    }
  };
  run_loop(execution_.device, length * maps_->launches_of_step(), records_,
           {r.lengths.data(), r.states[0].data(), r.states[1].data(), r.gates.data(), r.d_h.data(),
            r.d_last[0].data(), r.d_last[1].data(), d_first[0].data(), d_first[1].data(), around_h.data()},
           {length, batch}, steps);
  for (std::size_t i = 0; i < 2; ++i) add_where_empty<T>(input.lengths, r.d_last[i], d_first[i]);
  // 2. The rest, from the gradients of all steps at once.
  maps_->hidden.add_kernel_gradient(r.states[0].slice(0, length), r.gates, this->gradient(places_.hidden),
                                    around_h);
  maps_->input.add_kernel_gradient(input.vectors, r.gates, this->gradient(places_.input), around_x);
  if (!d_input.empty())
    maps_->input.add_input_gradient(this->value(places_.input), r.gates, d_input, around_x);
  const Index rows = pointwise::Lstm::gates * f;
  sum_rows<T>(r.gates.reshaped({r.gates.size() / rows, rows}), this->gradient(places_.bias), scratch);
}

template class ConvLstmLayer<float>;
template class ConvLstmLayer<double>;

}  // namespace orthornn
