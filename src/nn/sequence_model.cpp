#include "orthornn/nn/sequence_model.hpp"

#include <fmt/format.h>

#include "core/fields_json.hpp"
#include "nn/sequences.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

struct InputSize {
  Index operator()(const DenseInput& input) const { return input.size; }
  Index operator()(const OneHot& input) const { return input.symbols; }
  Index operator()(const TokenEmbedding& input) const { return input.size; }
};

/// Vectors of a step that the readout maps, each by itself.
Index pixels_of(const ReadoutOptions& readout) {
  const auto* frames = std::get_if<EveryPixel>(&readout);
  return frames == nullptr ? 1 : frames->pixels;
}

/// The readout of the options for a step's numbers of a task, of frames where the last layer returns such
/// frames.
ReadoutOptions readout_for(const SequenceData& data, const std::vector<LayerOptions>& cells, Index outputs) {
  const Index pixels = Shape{data.height, data.width}.count();
  if (data.every_step && pixels > 0 && !cells.empty() && pixels_of(cells.back()) == pixels)
    return EveryPixel{.outputs = outputs, .pixels = pixels};
  return data.every_step ? ReadoutOptions(EveryStep{outputs}) : LastStep{outputs};
}

constexpr const char* readout_prefix = "readout";

/// "cell" of a single cell, "cell0", "cell1" .. of several.
std::string cell_prefix(const ModelOptions& options, std::size_t cell) {
  return options.cells.size() == 1 ? "cell" : fmt::format("cell{}", cell);
}

constexpr const char* embedding_prefix = "embedding";

/// The options, all of whose sizes fit.
template <class T>
const ModelOptions& checked(const ModelOptions& options) {
  parameter_layout<T>(options);
  return options;
}

template <class T>
std::unique_ptr<EmbeddingLayer<T>> make_embedding(ParameterSet<T>& parameters, const InputOptions& input) {
  const auto* embedding = std::get_if<TokenEmbedding>(&input);
  if (embedding == nullptr) return nullptr;
  return std::make_unique<EmbeddingLayer<T>>(parameters, embedding_prefix, embedding->tokens,
                                             embedding->size);
}

template <class T>
typename StackLayer<T>::Layers make_cells(ParameterSet<T>& parameters, const ModelOptions& options,
                                          const Execution& execution) {
  typename StackLayer<T>::Layers cells;
  Index size = std::visit(InputSize{}, options.input);
  for (std::size_t i = 0; i < options.cells.size(); ++i) {
    cells.push_back(make_layer<T>(parameters, cell_prefix(options, i), options.cells[i], size, execution));
    size = cells.back()->output_size();
  }
  return cells;
}

}  // namespace

ModelOptions model_for(const SequenceData& data, std::vector<LayerOptions> cells) {
  check_forecast(data, reads_ahead(cells));
  const Index outputs = data.classes > 0 ? data.classes : data.values;
  ModelOptions options{.cells = std::move(cells)};
  options.input = data.symbols > 0 ? InputOptions(OneHot{data.symbols}) : DenseInput{data.features};
  options.readout = readout_for(data, options.cells, outputs);
  options.loss = data.classes > 0 ? Loss::softmax_cross_entropy : Loss::mean_squared_error;
  if (data.height > 0) options.loss = Loss::absolute_and_squared_error;
  return options;
}

template <class T>
ParameterSet<T> parameter_layout(const ModelOptions& options) {
  if (options.cells.empty()) throw ValueError("a model of no cells; expected at least one");
  check_layer_count(options.cells);
  if (std::holds_alternative<OneHot>(options.input) && !reads_symbols(options.cells[0])) {
    throw ValueError(
        "the first layer was given symbols, but reads vectors; put a linear, an "
        "orthogonal_linear or a recurrent layer before it");
  }
  ParameterSet<T> layout;
  if (const auto* embedding = std::get_if<TokenEmbedding>(&options.input))
    EmbeddingLayer<T>::add_parameters(layout, embedding_prefix, embedding->tokens, embedding->size);
  Index size = std::visit(InputSize{}, options.input);
  for (std::size_t i = 0; i < options.cells.size(); ++i) {
    add_layer_parameters(layout, cell_prefix(options, i), options.cells[i], size);
    size = output_size_of(options.cells[i], size);
  }
  const Index pixels = pixels_of(options.readout), outputs = output_size_of(options.readout);
  if (pixels < 1 || size % pixels != 0 || outputs % pixels != 0) {
    throw ValueError(
        fmt::format("a readout of {} pixels for {} numbers and {} outputs a step; expected as many of each "
                    "for every pixel",
                    pixels, size, outputs));
  }
  LinearLayer<T>::add_parameters(layout, readout_prefix, size / pixels, outputs / pixels);
  return layout;
}

template <class T>
SequenceModel<T>::SequenceModel(const Execution& execution, const ModelOptions& options, Undrawn)
    : Model<T>(execution, draws_noise(options.cells)),
      options_(checked<T>(options)),
      embedding_(make_embedding(this->parameters_, options.input)),
      cells_(make_cells(this->parameters_, options, execution)),
      readout_(this->parameters_, readout_prefix, cells_.output_size() / pixels_of(options.readout),
               output_size_of(options.readout) / pixels_of(options.readout), execution),
      last_outputs_(Shape{0}, execution.device),
      saved_(execution.device),
      scratch_(execution.device) {
  this->parameters_.allocate(execution.device);
  check_last_step();
  for (Index i = 0; i < cells_.state_count(); ++i) last_states_.emplace_back(Shape{0}, execution.device);
}

template <class T>
SequenceModel<T>::SequenceModel(const Execution& execution, const ModelOptions& options, std::uint64_t seed)
    : SequenceModel(execution, options, Undrawn{}) {
  if (embedding_) embedding_->initialize(seed);
  // Layers of one kind draw from the same streams of a seed, so each cell gets a seed of its own.
  for (std::size_t i = 0; i < cells_.layers().size(); ++i)
    cells_.layers()[i]->initialize(seed + 0x9E3779B97F4A7C15 * i);
  readout_.initialize(seed);
  this->prepare();
}

template <class T>
std::string SequenceModel<T>::options_text() const {
  return json_object(options_).dump();
}

template <class T>
void SequenceModel<T>::run_prepare() {
  if (embedding_) embedding_->prepare();
  cells_.prepare();
  readout_.prepare();
}

template <class T>
Shape SequenceModel<T>::input_shape(const Batch& batch) const {
  return std::holds_alternative<DenseInput>(options_.input) ? batch.reals(batch_names::features).shape()
                                                            : batch.integers(batch_names::symbols).shape();
}

template <class T>
std::vector<Shape> SequenceModel<T>::state_shapes(Index batch) const {
  std::vector<Shape> shapes;
  for (Index i = 0; i < cells_.state_count(); ++i) shapes.push_back(cells_.state_shape(i, batch));
  return shapes;
}

template <class T>
bool SequenceModel<T>::recordable(const Batch& batch) const {
  const Shape shape = input_shape(batch);
  if (shape.rank() < 2) return false;    // no batch, as it will be told
  if (batch.piece() == 0) return false;  // it starts elsewhere than the pieces after it
  const std::optional<Index> launches = cells_.launches(shape[0], shape[1]);
  return launches && *launches <= RecordedLoops::most_launches;
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
  if (every_step()) {
    const Index pixels = pixels_of(options_.readout);
    return {.vectors = outputs.reshaped({input_.length(), input_.batch() * pixels, readout_.input_size()})};
  }
  const Layer<T>& last_cell = *cells_.layers().back();
  const bool is_state = last_cell.ends_in_state();
  if (!is_state) {
    last_outputs_.reserve({outputs.shape()[1], outputs.shape()[2]});
    gather_last<T>(outputs, input_.lengths, last_outputs_);
  }
  const Tensor<T>& last =
      is_state ? last_states_[last_states_.size() - static_cast<std::size_t>(last_cell.state_count())]
               : last_outputs_;
  return {.vectors = last.view().reshaped({1, last.shape()[0], last.shape()[1]})};
}

template <class T>
void SequenceModel<T>::run_layers(const Batch& batch, const ModelState<T>* initial, bool training) {
  check_initial(initial);
  saved_.clear();
  input_ = first_input(batch);
  if (training) input_.noise = this->noise();
  last_views_.clear();
  start_views_.clear();
  for (std::size_t i = 0; i < last_states_.size(); ++i) {
    last_states_[i].reserve(cells_.state_shape(static_cast<Index>(i), input_.batch()));
    last_views_.push_back(last_states_[i]);
    if (initial) start_views_.push_back((*initial)[i].view());
  }
  cells_input_ = embedding_ ? input_.with_vectors(embedding_->forward(input_, {}, {}, saved_)) : input_;
  readout_input_ = readout_input(cells_.forward(cells_input_, start_views_, last_views_, saved_));
  readout_.forward(readout_input_, {}, {}, saved_);
  const TensorView<T> outputs = saved_.top<T>();
  outputs_ = every_step()
                 ? outputs.reshaped({input_.length(), input_.batch(), output_size_of(options_.readout)})
                 : outputs[0];
}

template <class T>
TensorView<const T> SequenceModel<T>::forward(const Batch& batch, const ModelState<T>* initial) {
  this->prepare();
  this->run_on(batch, [&] {
    run_layers(batch, initial != nullptr ? initial : start_of_piece(batch), false);
    if (initial == nullptr && batch.piece()) this->set_carried(last_states_);
  });
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
      every_step() ? input_.lengths : TensorView<const std::int32_t>();
  const TensorView<const float> weights = batch.reals(batch_names::weights);
  if (options_.loss == Loss::softmax_cross_entropy) {
    softmax_cross_entropy<T>(outputs_, batch.needed_integers(batch_names::classes), lengths, loss_, gradient,
                             /*smoothing=*/0, weights);
  } else {
    const TensorView<const float> values = batch.needed_reals(batch_names::values);
    options_.loss == Loss::mean_squared_error
        ? mean_squared_error<T>(outputs_, values, lengths, loss_, gradient, weights)
        : absolute_and_squared_error<T>(outputs_, values, lengths, loss_, gradient, weights);
  }
}

/// The states after the piece before; null where sequences start in their initial states.
template <class T>
const ModelState<T>* SequenceModel<T>::start_of_piece(const Batch& batch) const {
  if (!batch.piece()) return nullptr;
  if (!cells_.is_causal()) {
    throw ValueError(
        "a layer reads backward in time, so sequences cannot be cut into pieces; use layers that read "
        "forward, or whole sequences");
  }
  if (*batch.piece() == 0) return nullptr;
  if (carried_.size() != last_states_.size()) {
    throw ValueError(
        fmt::format("piece {} of long sequences has no states to start in; expected the piece "
                    "before it, or a checkpoint with its states",
                    *batch.piece()));
  }
  return &carried_;
}

template <class T>
void SequenceModel<T>::run(const Batch& batch, bool gradient) {
  run_layers(batch, start_of_piece(batch), gradient);
  compute_loss(batch, gradient);
  if (gradient) backward();
  // Last: the backward reads the states in which the piece started.
  if (batch.piece()) this->set_carried(last_states_);
}

/// Computes all gradients from that of the outputs, which is in their place.
template <class T>
void SequenceModel<T>::backward() {
  const Index length = input_.length(), batch = input_.batch(), size = cells_.output_size();
  scratch_.clear();
  // 1. The readout, of all steps or of the last state.
  const TensorView<T> d_cells = scratch_.push<T>({length, batch, size});
  const TensorView<T> d_last = every_step() ? TensorView<T>() : scratch_.push<T>({1, batch, size});
  const Shape outputs = {readout_input_.length(), readout_input_.batch(), readout_.output_size()};
  readout_.backward(readout_input_,
                    {.d_output = outputs_.reshaped(outputs),
                     .d_input = every_step() ? d_cells.reshaped(readout_input_.vectors.shape()) : d_last},
                    saved_, scratch_);
  d_last_views_.clear();
  // The output is the cell's first state then; the other states have no gradient.
  const Layer<T>& last_cell = *cells_.layers().back();
  const bool reads_state = !every_step() && last_cell.ends_in_state();
  if (!every_step()) {
    if (reads_state) {
      d_last_views_.resize(last_states_.size());
      d_last_views_[last_states_.size() - static_cast<std::size_t>(last_cell.state_count())] = d_last[0];
    } else {
      scatter_last<T>(d_last[0], input_.lengths, d_cells);
    }
  }
  // 2. The layers below it.
  const TensorView<T> d_input = embedding_ ? scratch_.push<T>(cells_input_.vectors.shape()) : TensorView<T>();
  cells_.backward(
      cells_input_,
      {.d_output = d_cells, .d_output_is_zero = reads_state, .d_last = d_last_views_, .d_input = d_input},
      saved_, scratch_);
  if (embedding_) embedding_->backward(input_, {.d_output = d_input}, saved_, scratch_);
}

template <class T>
std::optional<double> SequenceModel<T>::orthogonality_error() {
  const FaultDomain::Scope scope(this->faults());
  return cells_.orthogonality_error();
}

template <class T>
SequenceModel<T>::Generator::Generator(SequenceModel& model, Index batch)
    : model_(model), batch_size_(batch), batch_(model.device()) {
  model_.prepare();
  if (!model_.cells_.is_causal())
    throw ValueError("a layer reads backward in time, so nothing can be generated step by step");
  std::vector<TensorView<T>> views;
  for (Index i = 0; i < model_.cells_.state_count(); ++i) {
    state_.emplace_back(model_.cells_.state_shape(i, batch), model.device());
    views.push_back(state_.back());
  }
  model_.cells_.initial_state(views);
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
