#include "orthornn/nn/sequence_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/set_zero.hpp"
#include "cuda/nn/model_input.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/layers/embedding_layer.hpp"
#include "orthornn/layers/linear_layer.hpp"

namespace orthornn {
namespace {

struct InputSize {
  Index operator()(const DenseInput& input) const { return input.size; }
  Index operator()(const OneHot& input) const { return input.symbols; }
  Index operator()(const TokenEmbedding& input) const { return input.size; }
};

/// x [T, B, K] <- features. Padding is set to zero: a NaN there would reach the gradient of the weights.
template <class T>
void copy_features(TensorView<const float> features, TensorView<const std::int32_t> lengths,
                   TensorView<T> x) {
  if constexpr (has_cuda_bodies) {
    if (x.device().is_cuda()) return cuda::copy_features<T>(features, lengths, x);
  }
  std::copy(features.begin(), features.end(), x.begin());
  for (Index b = 0; b < std::min(lengths.size(), x.shape()[1]); ++b) {
    for (Index t = std::max(lengths(b), 0); t < x.shape()[0]; ++t) {
      const TensorView<T> column = x[t][b];
      std::fill(column.begin(), column.end(), T{0});
    }
  }
}

Index output_size(const ReadoutOptions& readout) {
  return std::visit([](const auto& options) { return options.outputs; }, readout);
}

constexpr const char* readout_prefix = "readout";

/// "cell" of a single cell, "cell0", "cell1" .. of several.
std::string cell_prefix(const ModelOptions& options, std::size_t cell) {
  return options.cells.size() == 1 ? "cell" : fmt::format("cell{}", cell);
}

Index input_size_of_cell(const ModelOptions& options, std::size_t cell) {
  return cell == 0 ? std::visit(InputSize{}, options.input) : hidden_size_of(options.cells[cell - 1]);
}

constexpr const char* embedding_prefix = "embedding";

}  // namespace

template <class T>
ParameterSet<T> parameter_layout(const ModelOptions& options) {
  if (options.cells.empty()) throw ValueError("a model of no cells; expected at least one");
  ParameterSet<T> layout;
  if (const auto* embedding = std::get_if<TokenEmbedding>(&options.input))
    EmbeddingLayer<T>::add_parameters(layout, embedding_prefix, embedding->tokens, embedding->size);
  for (std::size_t i = 0; i < options.cells.size(); ++i) {
    add_recurrent_parameters(layout, cell_prefix(options, i), options.cells[i],
                             input_size_of_cell(options, i));
  }
  LinearLayer<T>::add_parameters(layout, readout_prefix, hidden_size_of(options.cells.back()),
                                 output_size(options.readout));
  return layout;
}

template <class T>
SequenceModel<T>::SequenceModel(const Execution& execution, const ModelOptions& options, Undrawn)
    : execution_(execution),
      faults_(execution.device),
      options_(options),
      saved_(execution.device),
      scratch_(execution.device),
      loss_(Shape{2}, execution.device) {
  parameter_layout<T>(options);  // the check of the sizes, before any layer takes memory
  if (const auto* embedding = std::get_if<TokenEmbedding>(&options.input)) {
    layers_.push_back(std::make_unique<EmbeddingLayer<T>>(parameters_, embedding_prefix, embedding->tokens,
                                                          embedding->size));
  }
  for (std::size_t i = 0; i < options.cells.size(); ++i) {
    layers_.push_back(make_recurrent_layer<T>(parameters_, cell_prefix(options, i), options.cells[i],
                                              input_size_of_cell(options, i), execution));
  }
  layers_.push_back(std::make_unique<LinearLayer<T>>(parameters_, readout_prefix,
                                                     hidden_size_of(options.cells.back()),
                                                     output_size(options.readout), execution));
  parameters_.allocate(execution.device);
  inputs_.resize(layers_.size());
  first_state_.push_back(0);
  for (const auto& layer : layers_) {
    first_state_.push_back(first_state_.back() + static_cast<std::size_t>(layer->state_count()));
  }
  for (std::size_t i = 0; i < first_state_.back(); ++i) last_states_.emplace_back(Shape{0}, execution.device);
}

template <class T>
SequenceModel<T>::SequenceModel(const Execution& execution, const ModelOptions& options, std::uint64_t seed)
    : SequenceModel(execution, options, Undrawn{}) {
  // Layers of one kind draw from the same streams of a seed, so each cell gets a seed of its own.
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool is_cell = i >= first_cell() && i + 1 < layers_.size();
    layers_[i]->initialize(seed + (is_cell ? 0x9E3779B97F4A7C15 * (i - first_cell()) : 0));
  }
  prepare();
}

template <class T>
void SequenceModel<T>::synchronize() {
  const FaultDomain::Scope scope(faults_);
  orthornn::synchronize(device());
}

template <class T>
void SequenceModel<T>::prepare() {
  const FaultDomain::Scope scope(faults_);
  for (const auto& layer : layers_) layer->prepare();
}

template <class T>
const Shape& SequenceModel<T>::input_shape(const Batch& batch) const {
  return std::holds_alternative<DenseInput>(options_.input) ? batch.features.shape() : batch.symbols.shape();
}

template <class T>
bool SequenceModel<T>::recordable(const Batch& batch) const {
  const Shape& shape = input_shape(batch);
  if (shape.rank() < 2) return false;  // no batch, as it will be told
  Index launches = 0;
  for (const auto& layer : layers_) {
    const std::optional<Index> more = layer->launches(shape[0], shape[1]);
    if (!more) return false;
    launches += *more;
  }
  return launches <= RecordedLoops::most_launches;
}

template <class T>
void SequenceModel<T>::check_device(const Batch& batch) const {
  for (const Device found : {batch.symbols.device(), batch.features.device(), batch.lengths.device(),
                             batch.classes.device(), batch.values.device()}) {
    if (found == device()) continue;
    throw DeviceError(
        fmt::format("a batch in memory of {} was given to a model on {}; make it as Batch(device), "
                    "or copy(device) it",
                    to_string(found), to_string(device())));
  }
}

template <class T>
void SequenceModel<T>::check_initial(const ModelState<T>* initial) const {
  if (initial && initial->size() != last_states_.size()) {
    throw ShapeError(
        fmt::format("{} initial states; the model has {}", initial->size(), last_states_.size()));
  }
}

template <class T>
SequenceInput<T> SequenceModel<T>::first_input(const Batch& batch) {
  if (const auto* dense = std::get_if<DenseInput>(&options_.input)) {
    if (batch.features.shape().rank() != 3)
      check_shape("features", batch.features.shape(), {0, 0, dense->size});
    const TensorView<T> features = saved_.push<T>(batch.features.shape());
    copy_features<T>(batch.features, batch.lengths, features);
    return {.vectors = features, .lengths = batch.lengths};
  }
  if (batch.symbols.shape().rank() != 2) check_shape("symbols", batch.symbols.shape(), {0, 0});
  return {.symbols = batch.symbols, .lengths = batch.lengths};
}

/// The outputs of the last cell, or its last state as a sequence of one step.
template <class T>
SequenceInput<T> SequenceModel<T>::readout_input(TensorView<const T> outputs) const {
  if (every_step()) return {.vectors = outputs};
  const Tensor<T>& last = last_states_[first_state_[layers_.size() - 2]];
  return {.vectors = last.view().reshaped({1, last.shape()[0], last.shape()[1]})};
}

template <class T>
TensorView<const T> SequenceModel<T>::run(const Batch& batch, const ModelState<T>* initial) {
  check_initial(initial);
  const FaultDomain::Scope scope(faults_);
  check_device(batch);
  shapes_.reset();
  saved_.clear();
  inputs_[0] = first_input(batch);
  last_views_.clear();
  start_views_.clear();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::size_t first = first_state_[i], count = first_state_[i + 1] - first;
    for (std::size_t k = 0; k < count; ++k) {
      Tensor<T>& last = last_states_[first + k];
      last.reserve(layers_[i]->state_shape(static_cast<Index>(k), inputs_[i].batch()));
      last_views_.push_back(last);
      if (initial) start_views_.push_back((*initial)[first + k].view());
    }
    const States<T> last = States<T>(last_views_).subspan(first, count);
    const States<const T> starts(start_views_);  // none without `initial`
    const TensorView<const T> outputs =
        layers_[i]->forward(inputs_[i], initial ? starts.subspan(first, count) : starts, last, saved_);
    if (i + 2 < layers_.size()) inputs_[i + 1] = {.vectors = outputs, .lengths = batch.lengths};
    if (i + 2 == layers_.size()) inputs_[i + 1] = readout_input(outputs);
  }
  const TensorView<T> outputs = saved_.top<T>();
  outputs_ = every_step() ? outputs : outputs[0];
  shapes_ = batch.shapes();
  return outputs_;
}

template <class T>
TensorView<const T> SequenceModel<T>::forward(const Batch& batch, const ModelState<T>* initial) {
  prepare();
  return run(batch, initial);
}

template <class T>
void SequenceModel<T>::final_state(ModelState<T>& state) const {
  const FaultDomain::Scope scope(faults_);
  state.resize(last_states_.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    const Tensor<T>& last = last_states_[i];
    if (!(state[i].device() == last.device())) state[i] = Tensor<T>(Shape{0}, last.device());
    state[i].reserve(last.shape());
    copy<T>(last, state[i]);
  }
}

/// loss_ <- the loss of the outputs, which with `gradient` become its gradient.
template <class T>
void SequenceModel<T>::compute_loss(const Batch& batch, bool gradient) {
  const FaultDomain::Scope scope(faults_);
  // The last state is no padding, whatever its sequence's length.
  const TensorView<const std::int32_t> lengths =
      every_step() ? batch.lengths.view() : TensorView<const std::int32_t>();
  if (options_.loss == Loss::softmax_cross_entropy) {
    softmax_cross_entropy<T>(outputs_, batch.classes, lengths, loss_, gradient);
  } else {
    mean_squared_error<T>(outputs_, batch.values, lengths, loss_, gradient);
  }
}

template <class T>
BatchLoss SequenceModel<T>::read_loss() const {
  const FaultDomain::Scope scope(faults_);
  double value[2];
  copy<double>(loss_, TensorView<double>(value, loss_.shape()));
  return {.mean = value[0], .count = value[1]};
}

template <class T>
BatchLoss SequenceModel<T>::loss_of_last_outputs(const Batch& batch) {
  compute_loss(batch, false);
  return read_loss();
}

template <class T>
double SequenceModel<T>::loss(const Batch& batch) {
  forward(batch);
  return loss_of_last_outputs(batch).mean;
}

template <class T>
double SequenceModel<T>::loss_and_gradient(const Batch& batch) {
  prepare();
  loss_and_gradient_of_prepared(batch);
  return read_loss().mean;
}

template <class T>
void SequenceModel<T>::loss_and_gradient_of_prepared(const Batch& batch) {
  run(batch, nullptr);
  compute_loss(batch, true);
  backward();
}

/// From the gradient of the outputs, which stands in their place.
template <class T>
void SequenceModel<T>::backward() {
  const FaultDomain::Scope scope(faults_);
  const std::size_t readout = layers_.size() - 1;
  const Index length = inputs_[0].length(), batch = inputs_[0].batch();
  // 1. Two buffers in turn for the gradients between the layers.
  scratch_.clear();
  Index widest = 0;
  for (std::size_t i = 0; i < readout; ++i) widest = std::max(widest, layers_[i]->output_size());
  const Shape most{length, batch, widest};
  const TensorView<T> first = scratch_.push<T>(most);
  const TensorView<T> buffers[2] = {first, readout > 1 ? scratch_.push<T>(most) : first};
  const auto gradient_of = [&](std::size_t layer) {
    return TensorView<T>(buffers[layer % 2].data(), {length, batch, layers_[layer]->output_size()}, device());
  };
  // 2. The readout, of all steps or of the last state.
  TensorView<T> d_output = gradient_of(readout - 1);
  d_last_views_.clear();
  const Shape outputs = {inputs_[readout].length(), batch, layers_[readout]->output_size()};
  if (every_step()) {
    layers_[readout]->backward(
        inputs_[readout], {.d_output = outputs_.reshaped(outputs), .d_input = d_output}, saved_, scratch_);
  } else {
    set_zero(d_output);
    const TensorView<T> d_last = scratch_.push<T>({1, batch, layers_[readout - 1]->output_size()});
    layers_[readout]->backward(inputs_[readout], {.d_output = outputs_.reshaped(outputs), .d_input = d_last},
                               saved_, scratch_);
    // The output is the first state; the others have no gradient.
    d_last_views_.resize(static_cast<std::size_t>(layers_[readout - 1]->state_count()));
    d_last_views_[0] = d_last[0];
  }
  // 3. The layers below it.
  for (std::size_t i = readout; i-- > 0;) {
    const TensorView<T> d_input = i > 0 ? gradient_of(i - 1) : TensorView<T>();
    layers_[i]->backward(inputs_[i], {.d_output = d_output, .d_last = d_last_views_, .d_input = d_input},
                         saved_, scratch_);
    d_output = d_input;
    d_last_views_.clear();
  }
}

template <class T>
std::optional<double> SequenceModel<T>::orthogonality_error() {
  const FaultDomain::Scope scope(faults_);
  std::optional<double> largest;
  for (const auto& layer : layers_) {
    const std::optional<double> error = layer->orthogonality_error();
    // A NaN must not be lost in a maximum.
    if (error && !(largest && *error <= *largest)) largest = error;
    if (largest && std::isnan(*largest)) break;
  }
  return largest;
}

template <class T>
SequenceModel<T>::Generator::Generator(SequenceModel& model, Index batch)
    : model_(model), batch_(model.device()) {
  model_.prepare();
  for (const auto& layer : model_.layers_) {
    std::vector<TensorView<T>> views;
    for (Index i = 0; i < layer->state_count(); ++i) {
      state_.emplace_back(layer->state_shape(i, batch), model.device());
      views.push_back(state_.back());
    }
    layer->initial_state(views);
  }
}

template <class T>
TensorView<const T> SequenceModel<T>::Generator::step(TensorView<const float> features) {
  const auto* dense = std::get_if<DenseInput>(&model_.options_.input);
  if (!dense) throw ValueError("this model reads symbols, not features");
  check_shape("features", features.shape(), {state_[0].shape()[0], dense->size});
  batch_.features.reserve({1, features.shape()[0], features.shape()[1]});
  copy<float>(features, batch_.features.view()[0]);
  return step();
}

template <class T>
TensorView<const T> SequenceModel<T>::Generator::step(TensorView<const std::int32_t> symbols) {
  if (std::holds_alternative<DenseInput>(model_.options_.input))
    throw ValueError("this model reads features, not symbols");
  check_shape("symbols", symbols.shape(), {state_[0].shape()[0]});
  batch_.symbols.reserve({1, symbols.shape()[0]});
  copy<std::int32_t>(symbols, batch_.symbols.view()[0]);
  return step();
}

template <class T>
TensorView<const T> SequenceModel<T>::Generator::step() {
  const TensorView<const T> outputs = model_.run(batch_, &state_);
  model_.final_state(state_);
  return model_.every_step() ? outputs[0] : outputs;
}

template class SequenceModel<float>;
template class SequenceModel<double>;
template ParameterSet<float> parameter_layout<float>(const ModelOptions&);
template ParameterSet<double> parameter_layout<double>(const ModelOptions&);

}  // namespace orthornn
