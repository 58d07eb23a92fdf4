#include "orthornn/nn/sequence_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/fill_on_host.hpp"
#include "core/set_zero.hpp"
#include "cuda/cells/column_sums.hpp"
#include "cuda/nn/model_input.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

struct InputSize {
  Index operator()(const DenseInput& input) const { return input.size; }
  Index operator()(const OneHot& input) const { return input.symbols; }
  Index operator()(const TokenEmbedding& input) const { return input.size; }
};

/// x [T, B, K] <- features, with zeros beyond each sequence's length: what stands there is nobody's business,
/// a NaN included, but the weight gradient would multiply it by 0.
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

/// x [T, B, E] <- the vectors [tokens, E] of the symbols.
template <class T>
void embed(TensorView<const T> vectors, TensorView<const std::int32_t> symbols, TensorView<T> x) {
  if constexpr (has_cuda_bodies) {
    if (x.device().is_cuda()) return cuda::embed<T>(vectors, symbols, x);
  }
  const Index tokens = vectors.shape()[0];
  T* feature = x.data();
  for (const std::int32_t symbol : symbols) {
    if (symbol < 0 || symbol >= tokens) {
      throw ValueError(fmt::format("token {}; expected 0 to {}", symbol, tokens - 1));
    }
    feature = std::copy_n(vectors[symbol].data(), vectors.shape()[1], feature);
  }
}

/// d_vectors [tokens, E] <- for each the sum of what arrives at its places in d_x [T, B, E]. The CPU sums in
/// double, in `sums`: a frequent token has so many terms that a float would lose them.
template <class T>
void embed_backward(TensorView<const T> d_x, TensorView<const std::int32_t> symbols, TensorView<T> d_vectors,
                    Tensor<double>& sums) {
  if constexpr (has_cuda_bodies) {
    if (d_x.device().is_cuda()) {
      return cuda::sum_columns<T>(d_x, {.by_symbol = d_vectors.data(),
                                        .symbol_count = d_vectors.shape()[0],
                                        .symbol_stride = d_vectors.shape()[1],
                                        .row_stride = 1,
                                        .symbols = symbols});
    }
  }
  sums.reserve(d_vectors.shape());
  std::fill(sums.begin(), sums.end(), 0.0);
  const T* d_feature = d_x.data();
  for (const std::int32_t symbol : symbols) {
    for (double& sum : sums.view()[symbol]) sum += static_cast<double>(*d_feature++);
  }
  std::transform(sums.begin(), sums.end(), d_vectors.begin(), [](double sum) { return static_cast<T>(sum); });
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
  return cell == 0 ? std::visit(InputSize{}, options.input) : options.cells[cell - 1].hidden_size;
}

/// Adds the vectors of a TokenEmbedding; -1 where the input is another.
template <class T>
Index add_embedding(ParameterSet<T>& parameters, const InputOptions& input) {
  const auto* embedding = std::get_if<TokenEmbedding>(&input);
  if (embedding == nullptr) return -1;
  if (embedding->tokens < 1 || embedding->size < 1) {
    throw ValueError(fmt::format("an embedding of {} tokens of size {}; expected at least 1 of each",
                                 embedding->tokens, embedding->size));
  }
  return parameters.add("embedding/vectors", {embedding->tokens, embedding->size});
}

}  // namespace

template <class T>
ParameterSet<T> parameter_layout(const ModelOptions& options) {
  if (options.cells.empty()) throw ValueError("a model of no cells; expected at least one");
  ParameterSet<T> layout;
  add_embedding(layout, options.input);
  for (std::size_t i = 0; i < options.cells.size(); ++i) {
    RecurrentLayer<T>::add_parameters(layout, cell_prefix(options, i), options.cells[i],
                                      input_size_of_cell(options, i));
  }
  Readout<T>::add_parameters(layout, readout_prefix, options.cells.back().hidden_size,
                             output_size(options.readout));
  return layout;
}

template <class T>
SequenceModel<T>::SequenceModel(const Execution& execution, const ModelOptions& options, Undrawn)
    : execution_(execution),
      faults_(execution.device),
      options_(options),
      embedding_index_(add_embedding(parameters_, options.input)),
      features_(Shape{0}, execution.device),
      d_features_(Shape{0}, execution.device),
      outputs_(Shape{0}, execution.device),
      d_last_state_(Shape{0}, execution.device),
      loss_(Shape{2}, execution.device) {
  parameter_layout<T>(options);  // the check of the sizes, before any layer takes memory
  for (std::size_t i = 0; i < options.cells.size(); ++i) {
    cells_.push_back(std::make_unique<RecurrentLayer<T>>(
        parameters_, cell_prefix(options, i), options.cells[i], input_size_of_cell(options, i), execution));
  }
  readout_ = std::make_unique<Readout<T>>(parameters_, readout_prefix, options.cells.back().hidden_size,
                                          output_size(options.readout), execution);
  parameters_.allocate(execution.device);
}

template <class T>
SequenceModel<T>::SequenceModel(const Execution& execution, const ModelOptions& options, std::uint64_t seed)
    : SequenceModel(execution, options, Undrawn{}) {
  if (embedding_index_ >= 0) {
    fill_on_host(parameters_.value(embedding_index_), [&](TensorView<T> vectors) {
      RandomStream random(seed, RandomPurpose::initialization, 4);
      for (T& x : vectors) x = static_cast<T>(random.normal());
    });
  }
  // Layers draw from streams of one seed, so each gets a seed of its own.
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i]->initialize(seed + 0x9E3779B97F4A7C15 * i);
  readout_->initialize(seed);
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
  for (const auto& cell : cells_) cell->prepare();
  readout_->prepare();
}

template <class T>
const Shape& SequenceModel<T>::input_shape(const Batch& batch) const {
  return std::holds_alternative<DenseInput>(options_.input) ? batch.features.shape() : batch.symbols.shape();
}

template <class T>
bool SequenceModel<T>::recordable(const Batch& batch) const {
  const Shape& shape = input_shape(batch);
  if (shape.rank() < 2) return false;  // no batch, as it will be told
  return std::all_of(cells_.begin(), cells_.end(), [&](const auto& cell) {
    const Transition<T>& transition = cell->transition();
    return transition.recordable() && recordable_rollout(transition, shape[0], shape[1]);
  });
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
SequenceInput<T> SequenceModel<T>::first_input(const Batch& batch) {
  if (const auto* dense = std::get_if<DenseInput>(&options_.input)) {
    if (batch.features.shape().rank() != 3)
      check_shape("features", batch.features.shape(), {0, 0, dense->size});
    features_.reserve(batch.features.shape());
    copy_features<T>(batch.features, batch.lengths, features_);
    return {features_, {}};
  }
  if (batch.symbols.shape().rank() != 2) check_shape("symbols", batch.symbols.shape(), {0, 0});
  if (std::holds_alternative<OneHot>(options_.input)) return {{}, batch.symbols};

  const auto& embedding = std::get<TokenEmbedding>(options_.input);
  features_.reserve({batch.symbols.shape()[0], batch.symbols.shape()[1], embedding.size});
  embed<T>(std::as_const(parameters_).value(embedding_index_), batch.symbols, features_);
  return {features_, {}};
}

/// What cell i read in the last forward.
template <class T>
SequenceInput<T> SequenceModel<T>::input_of(std::size_t cell, const Batch& batch) {
  if (cell > 0) return {cells_[cell - 1]->outputs(), {}};
  if (std::holds_alternative<OneHot>(options_.input)) return {{}, batch.symbols};
  return {features_, {}};
}

template <class T>
TensorView<const T> SequenceModel<T>::read_states() const {
  return every_step() ? cells_.back()->outputs() : cells_.back()->last_state();
}

template <class T>
TensorView<const T> SequenceModel<T>::run(const Batch& batch, const ModelState<T>* initial) {
  if (initial && initial->size() != cells_.size()) {
    throw ShapeError(fmt::format("{} initial states for {} cells", initial->size(), cells_.size()));
  }
  const FaultDomain::Scope scope(faults_);
  check_device(batch);
  shapes_.reset();
  SequenceInput<T> input = first_input(batch);
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const TensorView<const T> h0 = initial ? (*initial)[i].view() : TensorView<const T>();
    cells_[i]->forward(input, h0, batch.lengths);
    input = {cells_[i]->outputs(), {}};
  }
  const TensorView<const T> states = read_states();
  const Index outputs = output_size(options_.readout);
  if (every_step()) {
    outputs_.reserve({states.shape()[0], states.shape()[1], outputs});
  } else {
    outputs_.reserve({states.shape()[0], outputs});
  }
  readout_->forward(states, outputs_);
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
  state.resize(cells_.size());
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const TensorView<const T> last = cells_[i]->last_state();
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
  backward(batch);
}

template <class T>
void SequenceModel<T>::backward(const Batch& batch) {
  const FaultDomain::Scope scope(faults_);
  TensorView<T> d_states = cells_.back()->d_outputs();
  TensorView<const T> d_last;
  if (every_step()) {
    readout_->backward(read_states(), outputs_, d_states);
  } else {
    set_zero(d_states);
    d_last_state_.reserve(read_states().shape());
    readout_->backward(read_states(), outputs_, d_last_state_);
    d_last = d_last_state_;
  }
  for (std::size_t i = cells_.size(); i-- > 0;) {
    TensorView<T> d_input;
    if (i > 0) {
      d_input = cells_[i - 1]->d_outputs();
    } else if (embedding_index_ >= 0) {
      d_features_.reserve(features_.shape());
      d_input = d_features_;
    }
    cells_[i]->backward(input_of(i, batch), d_last, batch.lengths, d_input);
    d_last = {};
  }
  if (embedding_index_ >= 0) {
    embed_backward<T>(d_features_, batch.symbols, parameters_.gradient(embedding_index_), embedding_sums_);
  }
}

template <class T>
double SequenceModel<T>::orthogonality_error() {
  const FaultDomain::Scope scope(faults_);
  double largest = 0;
  for (const auto& cell : cells_) {
    const double error = cell->orthogonality_error();
    // A NaN must not be lost in a maximum.
    if (!(error <= largest)) largest = error;
    if (std::isnan(largest)) break;
  }
  return largest;
}

template <class T>
SequenceModel<T>::Generator::Generator(SequenceModel& model, Index batch)
    : model_(model), batch_(model.device()) {
  model_.prepare();
  for (const auto& cell : model_.cells_) {
    state_.emplace_back(Shape{batch, cell->options().hidden_size}, model.device());
    cell->initial_state(state_.back());
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
