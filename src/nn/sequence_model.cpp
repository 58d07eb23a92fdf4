#include "orthornn/nn/sequence_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/linalg/orthogonality.hpp"

namespace orthornn {
namespace {

struct InputSize {
  Index operator()(const DenseInput& input) const { return input.size; }
  Index operator()(const OneHot& input) const { return input.symbols; }
  Index operator()(const TokenEmbedding& input) const { return input.size; }
};

/// Zeros in x [T, B, K] beyond each sequence's length: what stands there is nobody's business, a NaN
/// included, but the weight gradient would multiply it by 0.
template <class T>
void clear_padding(TensorView<const std::int32_t> lengths, TensorView<T> x) {
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

}  // namespace

template <class T>
SequenceModel<T>::SequenceModel(Device device, const ModelOptions& options, std::uint64_t seed)
    : device_(device), options_(options) {
  if (options.cells.empty()) throw ValueError("a model needs at least one cell");
  if (output_size(options.readout) < 1) throw ValueError("a readout needs at least one output");
  if (const auto* embedding = std::get_if<TokenEmbedding>(&options.input)) {
    if (embedding->tokens < 1)
      throw ValueError(fmt::format("{} tokens; expected at least 1", embedding->tokens));
    embedding_index_ = parameters_.add("embedding/vectors", {embedding->tokens, embedding->size});
  }
  Index input_size = std::visit(InputSize{}, options.input);
  for (std::size_t i = 0; i < options.cells.size(); ++i) {
    const std::string prefix = options.cells.size() == 1 ? "cell" : fmt::format("cell{}", i);
    cells_.push_back(std::make_unique<RecurrentLayer<T>>(parameters_, prefix, options.cells[i], input_size));
    input_size = options.cells[i].hidden_size;
  }
  readout_ = std::make_unique<Readout<T>>(parameters_, "readout", input_size, output_size(options.readout));

  parameters_.allocate(device);
  if (embedding_index_ >= 0) {
    RandomStream random(seed, RandomPurpose::initialization, 4);
    for (T& x : parameters_.value(embedding_index_)) x = static_cast<T>(random.normal());
  }
  // Layers draw from streams of one seed, so each gets a seed of its own.
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i]->initialize(seed + 0x9E3779B97F4A7C15 * i);
  readout_->initialize(seed);
  prepare();
}

template <class T>
void SequenceModel<T>::prepare() {
  for (const auto& cell : cells_) cell->prepare();
  readout_->prepare();
}

template <class T>
SequenceInput<T> SequenceModel<T>::first_input(const Batch& batch) {
  if (const auto* dense = std::get_if<DenseInput>(&options_.input)) {
    if (batch.features.shape().rank() != 3)
      check_shape("features", batch.features.shape(), {0, 0, dense->size});
    features_.reserve(batch.features.shape());
    std::copy(batch.features.begin(), batch.features.end(), features_.begin());
    clear_padding(batch.lengths, features_.view());
    return {features_, {}};
  }
  if (batch.symbols.shape().rank() != 2) check_shape("symbols", batch.symbols.shape(), {0, 0});
  if (std::holds_alternative<OneHot>(options_.input)) return {{}, batch.symbols};

  const auto& embedding = std::get<TokenEmbedding>(options_.input);
  features_.reserve({batch.symbols.shape()[0], batch.symbols.shape()[1], embedding.size});
  const TensorView<const T> vectors = std::as_const(parameters_).value(embedding_index_);
  T* feature = features_.data();
  for (const std::int32_t symbol : batch.symbols) {
    if (symbol < 0 || symbol >= embedding.tokens) {
      throw ValueError(fmt::format("token {}; expected 0 to {}", symbol, embedding.tokens - 1));
    }
    feature = std::copy_n(vectors[symbol].data(), embedding.size, feature);
  }
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
  return outputs_;
}

template <class T>
TensorView<const T> SequenceModel<T>::forward(const Batch& batch, const ModelState<T>* initial) {
  prepare();
  return run(batch, initial);
}

template <class T>
void SequenceModel<T>::final_state(ModelState<T>& state) const {
  state.resize(cells_.size());
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const TensorView<const T> last = cells_[i]->last_state();
    state[i].reserve(last.shape());
    copy<T>(last, state[i]);
  }
}

template <class T>
double SequenceModel<T>::loss_of_outputs(const Batch& batch, bool gradient) {
  return options_.loss == Loss::softmax_cross_entropy
             ? softmax_cross_entropy<T>(outputs_, batch.classes, gradient)
             : mean_squared_error<T>(outputs_, batch.values, gradient);
}

template <class T>
double SequenceModel<T>::loss(const Batch& batch) {
  forward(batch);
  return loss_of_outputs(batch, false);
}

template <class T>
double SequenceModel<T>::loss_and_gradient(const Batch& batch) {
  prepare();
  return loss_and_gradient_of_prepared(batch);
}

template <class T>
double SequenceModel<T>::loss_and_gradient_of_prepared(const Batch& batch) {
  run(batch, nullptr);
  const double value = loss_of_outputs(batch, true);
  backward(batch);
  return value;
}

template <class T>
void SequenceModel<T>::backward(const Batch& batch) {
  TensorView<T> d_states = cells_.back()->d_outputs();
  TensorView<const T> d_last;
  if (every_step()) {
    readout_->backward(read_states(), outputs_, d_states);
  } else {
    std::fill(d_states.begin(), d_states.end(), T{0});
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
    const TensorView<T> d_vectors = parameters_.gradient(embedding_index_);
    std::fill(d_vectors.begin(), d_vectors.end(), T{0});
    const T* d_feature = d_features_.data();
    for (const std::int32_t symbol : batch.symbols) {
      for (T& d : d_vectors[symbol]) d += *d_feature++;
    }
  }
}

template <class T>
double SequenceModel<T>::orthogonality_error() const {
  double largest = 0;
  for (const auto& cell : cells_) {
    largest = std::max(largest, orthornn::orthogonality_error(cell->transition().materialize()));
  }
  return largest;
}

template <class T>
SequenceModel<T>::Generator::Generator(SequenceModel& model, Index batch) : model_(model) {
  model_.prepare();
  for (const auto& cell : model_.cells_) state_.emplace_back(Shape{batch, cell->options().hidden_size});
}

template <class T>
TensorView<const T> SequenceModel<T>::Generator::step(TensorView<const float> features) {
  const auto* dense = std::get_if<DenseInput>(&model_.options_.input);
  if (!dense) throw ValueError("this model reads symbols, not features");
  check_shape("features", features.shape(), {state_[0].shape()[0], dense->size});
  batch_.features.reserve({1, features.shape()[0], features.shape()[1]});
  std::copy(features.begin(), features.end(), batch_.features.begin());
  return step();
}

template <class T>
TensorView<const T> SequenceModel<T>::Generator::step(TensorView<const std::int32_t> symbols) {
  if (std::holds_alternative<DenseInput>(model_.options_.input))
    throw ValueError("this model reads features, not symbols");
  check_shape("symbols", symbols.shape(), {state_[0].shape()[0]});
  batch_.symbols.reserve({1, symbols.shape()[0]});
  std::copy(symbols.begin(), symbols.end(), batch_.symbols.begin());
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

}  // namespace orthornn
