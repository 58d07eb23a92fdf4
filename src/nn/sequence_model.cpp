#include "orthornn/nn/sequence_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/back_end.hpp"
#include "core/fields_json.hpp"
#include "core/set_zero.hpp"
#include "cuda/nn/model_input.hpp"
#include "layers/largest_orthogonality_error.hpp"
#include "nn/last_outputs.hpp"
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

/// Sizes of what each cell and, at the end, the readout reads.
std::vector<Index> input_sizes(const ModelOptions& options) {
  std::vector<Index> sizes = {std::visit(InputSize{}, options.input)};
  for (const LayerOptions& layer : options.cells) sizes.push_back(output_size_of(layer, sizes.back()));
  return sizes;
}

constexpr const char* embedding_prefix = "embedding";

}  // namespace

ModelOptions model_for(const SequenceData& data, std::vector<LayerOptions> cells) {
  const Index outputs = data.classes > 0 ? data.classes : data.values;
  ModelOptions options{.cells = std::move(cells)};
  options.input = data.symbols > 0 ? InputOptions(OneHot{data.symbols}) : DenseInput{data.features};
  options.readout = data.every_step ? ReadoutOptions(EveryStep{outputs}) : LastStep{outputs};
  options.loss = data.classes > 0 ? Loss::softmax_cross_entropy : Loss::mean_squared_error;
  return options;
}

template <class T>
ParameterSet<T> parameter_layout(const ModelOptions& options) {
  if (options.cells.empty()) throw ValueError("a model of no cells; expected at least one");
  check_layer_count(options.cells);
  if (std::holds_alternative<OneHot>(options.input) && !reads_symbols(options.cells[0])) {
    throw ValueError(
        "the first layer was given symbols, but reads vectors; put a linear or a "
        "recurrent layer before it");
  }
  const std::vector<Index> sizes = input_sizes(options);
  ParameterSet<T> layout;
  if (const auto* embedding = std::get_if<TokenEmbedding>(&options.input))
    EmbeddingLayer<T>::add_parameters(layout, embedding_prefix, embedding->tokens, embedding->size);
  for (std::size_t i = 0; i < options.cells.size(); ++i)
    add_layer_parameters(layout, cell_prefix(options, i), options.cells[i], sizes[i]);
  LinearLayer<T>::add_parameters(layout, readout_prefix, sizes.back(), output_size(options.readout));
  return layout;
}

template <class T>
SequenceModel<T>::SequenceModel(const Execution& execution, const ModelOptions& options, Undrawn)
    : Model<T>(execution, draws_noise(options.cells)),
      options_(options),
      last_outputs_(Shape{0}, execution.device),
      saved_(execution.device),
      scratch_(execution.device) {
  parameter_layout<T>(options);  // the check of the sizes, before any layer takes memory
  if (const auto* embedding = std::get_if<TokenEmbedding>(&options.input)) {
    layers_.push_back(std::make_unique<EmbeddingLayer<T>>(this->parameters_, embedding_prefix,
                                                          embedding->tokens, embedding->size));
  }
  const std::vector<Index> sizes = input_sizes(options);
  for (std::size_t i = 0; i < options.cells.size(); ++i) {
    layers_.push_back(
        make_layer<T>(this->parameters_, cell_prefix(options, i), options.cells[i], sizes[i], execution));
  }
  layers_.push_back(std::make_unique<LinearLayer<T>>(this->parameters_, readout_prefix, sizes.back(),
                                                     output_size(options.readout), execution));
  this->parameters_.allocate(execution.device);
  check_last_step();
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
  this->prepare();
}

template <class T>
std::string SequenceModel<T>::options_text() const {
  return json_object(options_).dump();
}

template <class T>
void SequenceModel<T>::run_prepare() {
  for (const auto& layer : layers_) layer->prepare();
}

template <class T>
Shape SequenceModel<T>::input_shape(const Batch& batch) const {
  return std::holds_alternative<DenseInput>(options_.input) ? batch.reals(batch_names::features).shape()
                                                            : batch.integers(batch_names::symbols).shape();
}

template <class T>
bool SequenceModel<T>::recordable(const Batch& batch) const {
  const Shape shape = input_shape(batch);
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
std::vector<LayerDescription> SequenceModel<T>::describe(Index length, Index batch) const {
  std::vector<LayerDescription> cells;
  for (Index i = 0; i < cell_count(); ++i) cells.push_back(cell(i).describe(length, batch));
  return cells;
}

/// The last step of a layer that reads backward has seen one step. A recurrence above it has seen all.
template <class T>
void SequenceModel<T>::check_last_step() const {
  if (every_step()) return;
  for (Index i = cell_count(); i-- > 0;) {
    if (!cell(i).is_causal()) {
      throw ValueError(
          "a readout of the last step on a layer that reads backward in time, of which the last step has "
          "seen one step; use a readout of every step, or a recurrence above that layer");
    }
    if (cell(i).state_count() > 0) return;
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
  const TensorView<const std::int32_t> lengths = batch.integers(batch_names::lengths);
  if (const auto* dense = std::get_if<DenseInput>(&options_.input)) {
    const TensorView<const float> given = batch.needed_reals(batch_names::features);
    if (given.shape().rank() != 3) check_shape("features", given.shape(), {0, 0, dense->size});
    const TensorView<T> features = saved_.push<T>(given.shape());
    copy_features<T>(given, lengths, features);
    return {.vectors = features, .lengths = lengths};
  }
  const TensorView<const std::int32_t> symbols = batch.needed_integers(batch_names::symbols);
  if (symbols.shape().rank() != 2) check_shape("symbols", symbols.shape(), {0, 0});
  return {.symbols = symbols, .lengths = lengths};
}

/// The outputs of the last cell, or those of the last step as a sequence of one.
template <class T>
SequenceInput<T> SequenceModel<T>::readout_input(TensorView<const T> outputs) {
  if (every_step()) return {.vectors = outputs};
  const bool is_state = layers_[layers_.size() - 2]->ends_in_state();
  if (!is_state) {
    last_outputs_.reserve({outputs.shape()[1], outputs.shape()[2]});
    gather_last<T>(outputs, inputs_[0].lengths, last_outputs_);
  }
  const Tensor<T>& last = is_state ? last_states_[first_state_[layers_.size() - 2]] : last_outputs_;
  return {.vectors = last.view().reshaped({1, last.shape()[0], last.shape()[1]})};
}

template <class T>
void SequenceModel<T>::run_layers(const Batch& batch, const ModelState<T>* initial, bool training) {
  check_initial(initial);
  saved_.clear();
  inputs_[0] = first_input(batch);
  if (training) inputs_[0].noise = this->noise();
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
    if (i + 2 < layers_.size()) inputs_[i + 1] = inputs_[0].with_vectors(outputs);
    if (i + 2 == layers_.size()) inputs_[i + 1] = readout_input(outputs);
  }
  const TensorView<T> outputs = saved_.top<T>();
  outputs_ = every_step() ? outputs : outputs[0];
}

template <class T>
TensorView<const T> SequenceModel<T>::forward(const Batch& batch, const ModelState<T>* initial) {
  this->prepare();
  this->run_on(batch, [&] { run_layers(batch, initial, false); });
  return outputs_;
}

template <class T>
void SequenceModel<T>::final_state(ModelState<T>& state) const {
  const FaultDomain::Scope scope(this->faults());
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
  // The last state is no padding, whatever its sequence's length.
  const TensorView<const std::int32_t> lengths =
      every_step() ? inputs_[0].lengths : TensorView<const std::int32_t>();
  if (options_.loss == Loss::softmax_cross_entropy) {
    softmax_cross_entropy<T>(outputs_, batch.needed_integers(batch_names::classes), lengths, loss_, gradient);
  } else {
    mean_squared_error<T>(outputs_, batch.needed_reals(batch_names::values), lengths, loss_, gradient);
  }
}

template <class T>
void SequenceModel<T>::run(const Batch& batch, bool gradient) {
  run_layers(batch, nullptr, gradient);
  compute_loss(batch, gradient);
  if (gradient) backward();
}

/// From the gradient of the outputs, which stands in their place.
template <class T>
void SequenceModel<T>::backward() {
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
    return TensorView<T>(buffers[layer % 2].data(), {length, batch, layers_[layer]->output_size()},
                         this->device());
  };
  // 2. The readout, of all steps or of the last state.
  TensorView<T> d_output = gradient_of(readout - 1);
  d_last_views_.clear();
  const Shape outputs = {inputs_[readout].length(), batch, layers_[readout]->output_size()};
  if (every_step()) {
    layers_[readout]->backward(
        inputs_[readout], {.d_output = outputs_.reshaped(outputs), .d_input = d_output}, saved_, scratch_);
  } else {
    const TensorView<T> d_last = scratch_.push<T>({1, batch, layers_[readout - 1]->output_size()});
    layers_[readout]->backward(inputs_[readout], {.d_output = outputs_.reshaped(outputs), .d_input = d_last},
                               saved_, scratch_);
    if (layers_[readout - 1]->ends_in_state()) {
      // The output is the first state; the others have no gradient.
      set_zero(d_output);
      d_last_views_.resize(static_cast<std::size_t>(layers_[readout - 1]->state_count()));
      d_last_views_[0] = d_last[0];
    } else {
      scatter_last<T>(d_last[0], inputs_[0].lengths, d_output);
    }
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
  const FaultDomain::Scope scope(this->faults());
  return largest_orthogonality_error(layers_);
}

template <class T>
SequenceModel<T>::Generator::Generator(SequenceModel& model, Index batch)
    : model_(model), batch_size_(batch), batch_(model.device()) {
  model_.prepare();
  for (const auto& layer : model_.layers_) {
    if (!layer->is_causal())
      throw ValueError("a layer reads backward in time, so nothing can be generated step by step");
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
  check_shape("features", features.shape(), {batch_size_, dense->size});
  Tensor<float>& step_features = batch_.reals(batch_names::features);
  step_features.reserve({1, features.shape()[0], features.shape()[1]});
  copy<float>(features, step_features.view()[0]);
  return step();
}

template <class T>
TensorView<const T> SequenceModel<T>::Generator::step(TensorView<const std::int32_t> symbols) {
  if (std::holds_alternative<DenseInput>(model_.options_.input))
    throw ValueError("this model reads features, not symbols");
  check_shape("symbols", symbols.shape(), {batch_size_});
  Tensor<std::int32_t>& step_symbols = batch_.integers(batch_names::symbols);
  step_symbols.reserve({1, symbols.shape()[0]});
  copy<std::int32_t>(symbols, step_symbols.view()[0]);
  return step();
}

template <class T>
TensorView<const T> SequenceModel<T>::Generator::step() {
  model_.run_on(batch_, [&] { model_.run_layers(batch_, &state_, false); });
  const TensorView<const T> outputs = model_.outputs();
  model_.final_state(state_);
  return model_.every_step() ? outputs[0] : outputs;
}

template class SequenceModel<float>;
template class SequenceModel<double>;
template ParameterSet<float> parameter_layout<float>(const ModelOptions&);
template ParameterSet<double> parameter_layout<double>(const ModelOptions&);

}  // namespace orthornn
