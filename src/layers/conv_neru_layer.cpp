#include "orthornn/layers/conv_neru_layer.hpp"

#include <cmath>

#include "core/live_steps.hpp"
#include "core/set_zero.hpp"
#include "layers/frame_convolution.hpp"
#include "layers/frames.hpp"
#include "layers/initialization.hpp"
#include "layers/stepwise.hpp"
#include "linalg/column_sums.hpp"
#include "orthornn/linalg/orthogonality.hpp"

namespace orthornn {
namespace {

/// No value for a free kernel.
std::optional<StiefelKind> kind_of(HiddenKernel kernel) {
  switch (kernel) {
    case HiddenKernel::stiefel:
      return StiefelKind::truncated_cwy;
    case HiddenKernel::own:
      return StiefelKind::weight_normalization;
    case HiddenKernel::matrix:
      return StiefelKind::matrix;
    default:
      return std::nullopt;
  }
}

/// Of Omega: a neighbourhood repeats a pixel at most q^2 times.
template <class T>
T factor_of(const ConvNeru& options) {
  return kind_of(options.hidden_kernel) ? T{1} / static_cast<T>(options.kernel_size) : T{1};
}

}  // namespace

template <class T>
typename ConvNeruLayer<T>::Places ConvNeruLayer<T>::add_parameters(ParameterSet<T>& parameters,
                                                                   const std::string& prefix,
                                                                   const ConvNeru& options,
                                                                   Index input_size) {
  const Index channels = channels_of(options, input_size), f = options.hidden_size;
  const Index rows = Shape{offsets_of(options), f}.count();
  Places places{};
  places.input = parameters.add(prefix + "/input_kernel", {Shape{offsets_of(options), channels}.count(), f});
  const std::optional<StiefelKind> stiefel = kind_of(options.hidden_kernel);
  const Parameter hidden = stiefel ? stiefel_parameter(*stiefel, rows, f)
                                   : Parameter{"kernel", {rows, f}, ParameterKind::ordinary, 0};
  places.hidden = parameters.add(prefix + "/hidden_" + hidden.name, hidden.shape, hidden.kind);
  places.bias = parameters.add(prefix + "/bias", {f});
  return places;
}

template <class T>
ConvNeruLayer<T>::ConvNeruLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                const ConvNeru& options, Index input_size, const Execution& execution)
    : Layer<T>(parameters, input_size, options.output_size(input_size)),
      options_(options),
      execution_(execution),
      places_(add_parameters(parameters, prefix, options, input_size)) {
  this->parameters_added();
  const Index f = options.hidden_size;
  maps_ = std::make_unique<FrameMaps<T>>(options, channels_of(options, input_size), f, factor_of<T>(options),
                                         execution);
  if (const std::optional<StiefelKind> stiefel = kind_of(options.hidden_kernel))
    stiefel_ = make_stiefel_point<T>(*stiefel, offsets_of(options) * f, f, execution);
}

template <class T>
ConvNeruLayer<T>::~ConvNeruLayer() = default;

template <class T>
void ConvNeruLayer<T>::initialize(std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::initialization, 1);
  const TensorView<T> input = this->parameters_.value(places_.input),
                      hidden = this->parameters_.value(places_.hidden);
  draw_normal<T>(input, std::sqrt(2.0 / static_cast<double>(input.shape()[0])), random);
  set_zero(this->parameters_.value(places_.bias));
  const Index rows = offsets_of(options_) * options_.hidden_size;
  switch (options_.hidden_kernel) {
    case HiddenKernel::stiefel:
    case HiddenKernel::own:
    case HiddenKernel::matrix:
      return stiefel_->initialize(seed, hidden);
    case HiddenKernel::glorot:
      return draw_uniform<T>(hidden, std::sqrt(3.0 / static_cast<double>(rows)), random);
    case HiddenKernel::orthogonal: {
      const auto point = make_stiefel_point<T>(StiefelKind::matrix, rows, options_.hidden_size);
      Tensor<T> kernel({rows, options_.hidden_size});
      point->initialize(seed, kernel);
      for (T& x : kernel) x /= static_cast<T>(options_.kernel_size);
      return copy<T>(kernel, hidden);
    }
    case HiddenKernel::zeros:
      return set_zero(hidden);
  }
}

template <class T>
TensorView<const T> ConvNeruLayer<T>::hidden_kernel() const {
  return stiefel_ ? stiefel_->omega() : this->value(places_.hidden);
}

template <class T>
void ConvNeruLayer<T>::run_prepare() {
  if (stiefel_) stiefel_->prepare(this->value(places_.hidden));
}

template <class T>
std::optional<Index> ConvNeruLayer<T>::launches(Index length, Index) const {
  if (stiefel_ && !stiefel_->recordable()) return std::nullopt;
  return maps_->launches(length);
}

template <class T>
LayerDescription ConvNeruLayer<T>::describe(Index, Index) const {
  LayerDescription found = this->description(ConvNeru::name);
  found.rollout = stepwise_name(execution_, ConvNeru::name);
  return found;
}

template <class T>
std::optional<double> ConvNeruLayer<T>::orthogonality_error() {
  if (!stiefel_) return std::nullopt;
  return orthornn::orthogonality_error<T>(stiefel_->omega());
}

template <class T>
TensorView<const T> ConvNeruLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                                  States<T> last, Saved& saved) const {
  const Index length = input.length(), batch = input.batch(), n = this->output_size();
  const TensorView<T> states = saved.push<T>({length + 1, batch, n}), first = states[0];
  start.empty() ? set_zero(first) : copy<T>(start[0], first);
  if (!last.empty()) copy<T>(first, last[0]);  // that of a sequence without a step
  const Saved::Scope scope(saved);
  const TensorView<T> around_x = saved.push<T>(maps_->input.neighbours_shape(batch)),
                      around_h = saved.push<T>(maps_->hidden.neighbours_shape(batch));
  const TensorView<T> end = last.empty() ? TensorView<T>() : last[0], outputs = states.slice(1, length);
  // 1. b + K_x * x_t of all steps, in the place of the states.
  maps_->input.apply(this->value(places_.input), this->value(places_.bias), input.vectors, outputs, around_x);
  // 2. The steps.
  const auto steps = [&] {
    for (Index t = 0; t < length; ++t) {
      const TensorView<T> h = outputs[t];
      maps_->hidden.add(hidden_kernel(), states[t], h, around_h,
                        {.length = length,
                         .step = t,
                         .size = n,
                         .lengths = or_null(input.lengths),
                         .h = h.data(),
                         .last = end.data()});
    }
  };
  run_loop(execution_.device, length * maps_->launches_of_step(), records_,
           {input.lengths.data(), states.data(), end.data(), around_h.data()}, {length, batch}, steps);
  return outputs;
}

template <class T>
void ConvNeruLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                    bool, Saved& saved, Saved& scratch) const {
  const Index length = input.length(), batch = input.batch(), n = this->output_size();
  const TensorView<const T> states = saved.top<T>();
  const TensorView<T> d = arguments.d_output, d_input = arguments.d_input;
  const TensorView<const T> d_last = arguments.d_last.empty() ? TensorView<const T>() : arguments.d_last[0];
  const TensorView<T> d_first =
      arguments.d_start.empty() ? scratch.push<T>({batch, n}) : arguments.d_start[0];
  const TensorView<T> around_x = scratch.push<T>(maps_->input.neighbours_shape(batch)),
                      around_h = scratch.push<T>(maps_->hidden.neighbours_shape(batch)),
                      d_hidden = stiefel_ ? scratch.push<T>(hidden_kernel().shape())
                                          : this->gradient(places_.hidden);
  for (const TensorView<T>& sum : {d_first, d_hidden, this->gradient(places_.input)}) set_zero(sum);
  if (!d_input.empty() && arguments.input == Gradients::overwrite) set_zero(d_input);
  // 1. The steps: the gradients of a_t take the place of those that arrive at h_t.
  const auto relu = [&](Index t) {
    return pointwise::ReluStepBackward<T>{.length = length,
                                          .step = t,
                                          .size = n,
                                          .lengths = or_null(input.lengths),
                                          .h = states[t + 1].data(),
                                          .d_last = or_null(d_last),
                                          .d = d[t].data()};
  };
  const auto steps = [&] {
    if (length > 0) for_each_entry(d.device(), n, batch, relu(length - 1));
    for (Index t = length - 1; t >= 0; --t) {
      maps_->hidden.add_input_gradient(hidden_kernel(), d[t], t > 0 ? d[t - 1] : d_first, around_h,
                                       t > 0 ? relu(t - 1) : pointwise::ReluStepBackward<T>{});
    }
  };
  run_loop(execution_.device, length * maps_->launches_of_step(), records_,
           {input.lengths.data(), states.data(), d.data(), d_last.data(), d_first.data(), around_h.data()},
           {length, batch}, steps);
  add_where_empty<T>(input.lengths, d_last, d_first);
  // 2. The rest, from the gradients of all steps at once.
  maps_->hidden.add_kernel_gradient(states.slice(0, length), d, d_hidden, around_h);
  maps_->input.add_kernel_gradient(input.vectors, d, this->gradient(places_.input), around_x);
  if (!d_input.empty()) maps_->input.add_input_gradient(this->value(places_.input), d, d_input, around_x);
  sum_rows<T>(d.reshaped({d.size() / options_.hidden_size, options_.hidden_size}),
              this->gradient(places_.bias), scratch);
  if (stiefel_) stiefel_->backward(d_hidden, this->gradient(places_.hidden));
}

template class ConvNeruLayer<float>;
template class ConvNeruLayer<double>;

}  // namespace orthornn
