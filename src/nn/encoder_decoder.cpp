#include "orthornn/nn/encoder_decoder.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/fields_json.hpp"
#include "layers/initialization.hpp"
#include "layers/largest_orthogonality_error.hpp"
#include "nn/decoder_attention.hpp"
#include "nn/log_softmax.hpp"
#include "nn/sequences.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/recorded_loops.hpp"

namespace orthornn {
namespace {

constexpr const char* source_prefix = "source_embedding";
constexpr const char* encoder_prefix = "encoder";
constexpr const char* target_prefix = "target_embedding";
constexpr const char* decoder_prefix = "decoder";
constexpr const char* attention_prefix = "attention";
constexpr const char* output_prefix = "output";

template <class T>
typename DecoderAttention<T>::Sizes attention_sizes(const EncoderDecoderOptions& options) {
  const Index state = output_size_of(options.decoder, options.embedding_size);
  return {.state = state,
          .key = output_size_of(options.encoder, options.embedding_size),
          .output = options.tied ? options.embedding_size : state};
}

template <class T>
std::optional<Index> tied_weight(const EncoderDecoderOptions& options, const ParameterSet<T>& parameters) {
  if (!options.tied) return std::nullopt;
  return parameters.find(fmt::format("{}/vectors", target_prefix));
}

/// The options, all of whose sizes fit.
template <class T>
const EncoderDecoderOptions& checked(const EncoderDecoderOptions& options) {
  parameter_layout<T>(options);
  return options;
}

/// Whether both layers have states, as many, of the same shapes.
template <class T>
bool same_states(const Layer<T>& a, const Layer<T>& b) {
  if (a.state_count() == 0 || a.state_count() != b.state_count()) return false;
  for (Index i = 0; i < a.state_count(); ++i) {
    if (!(a.state_shape(i, 1) == b.state_shape(i, 1))) return false;
  }
  return true;
}

/// The symbols of a batch with their lengths. Throws ShapeError for another rank than 2, ValueError where
/// there are none.
template <class T>
SequenceInput<T> symbols_of(const Batch& batch, std::string_view name, std::string_view lengths) {
  const TensorView<const std::int32_t> symbols = batch.needed_integers(name);
  if (symbols.shape().rank() != 2) check_shape(std::string(name).c_str(), symbols.shape(), {0, 0});
  return {.symbols = symbols, .lengths = batch.integers(lengths)};
}

template <class T>
void append_layers(const Layer<T>& stack, Index length, Index batch, bool is_stack,
                   std::vector<LayerDescription>& to) {
  LayerDescription description = stack.describe(length, batch);
  if (!is_stack) return to.push_back(std::move(description));
  for (LayerDescription& layer : description.layers) to.push_back(std::move(layer));
}

}  // namespace

template <class T>
ParameterSet<T> parameter_layout(const EncoderDecoderOptions& options) {
  check_fields<T>("encoder-decoder", options);
  ParameterSet<T> layout;
  const Index size = options.embedding_size;
  EmbeddingLayer<T>::add_parameters(layout, source_prefix, options.source_symbols, size);
  add_stack_parameters(layout, encoder_prefix, options.encoder, size);
  EmbeddingLayer<T>::add_parameters(layout, target_prefix, options.target_symbols, size);
  add_stack_parameters(layout, decoder_prefix, options.decoder, size);
  const auto sizes = attention_sizes<T>(options);
  DecoderAttention<T>::add_parameters(layout, attention_prefix, sizes);
  SoftmaxOutput<T>::add_parameters(layout, output_prefix, sizes.output, options.target_symbols,
                                   tied_weight(options, layout));
  return layout;
}

template <class T>
EncoderDecoder<T>::EncoderDecoder(const Execution& execution, const EncoderDecoderOptions& options, Undrawn,
                                  Index most_outputs)
    : Model<T>(execution,
               options.dropout > 0 || draws_noise(options.encoder) || draws_noise(options.decoder)),
      options_(checked<T>(options)),
      source_embedding_(this->parameters_, source_prefix, options.source_symbols, options.embedding_size),
      encoder_(make_stack<T>(this->parameters_, encoder_prefix, options.encoder, options.embedding_size,
                             execution)),
      target_embedding_(this->parameters_, target_prefix, options.target_symbols, options.embedding_size),
      decoder_(make_stack<T>(this->parameters_, decoder_prefix, options.decoder, options.embedding_size,
                             execution)),
      attention_(std::make_unique<DecoderAttention<T>>(this->parameters_, attention_prefix,
                                                       attention_sizes<T>(options), execution)),
      output_(this->parameters_, output_prefix, attention_->output_size(), options.target_symbols,
              tied_weight(options, this->parameters_), execution, most_outputs),
      carries_states_(same_states(*encoder_, *decoder_)),
      saved_(execution.device),
      scratch_(execution.device) {
  if (!decoder_->is_causal()) {
    throw ValueError(
        "a layer of the decoder reads backward in time, so that it would see the answer before it gives it; "
        "expected such layers in the encoder alone");
  }
  if (options.dropout > 0) {
    dropout_ = std::make_unique<DropoutLayer<T>>(this->parameters_, output_prefix,
                                                 Dropout{.rate = options.dropout}, attention_->output_size());
  }
  this->parameters_.allocate(execution.device);
  for (Index i = 0; carries_states_ && i < encoder_->state_count(); ++i)
    last_states_.emplace_back(Shape{0}, execution.device);
}

template <class T>
EncoderDecoder<T>::EncoderDecoder(const Execution& execution, const EncoderDecoderOptions& options,
                                  std::uint64_t seed, Index most_outputs)
    : EncoderDecoder(execution, options, Undrawn{}, most_outputs) {
  RandomStream random(seed, RandomPurpose::initialization, 6);
  source_embedding_.initialize(draw_seed(random));
  encoder_->initialize(draw_seed(random));
  target_embedding_.initialize(draw_seed(random));
  decoder_->initialize(draw_seed(random));
  attention_->initialize(draw_seed(random));
  output_.initialize(draw_seed(random));
  this->prepare();
}

template <class T>
EncoderDecoder<T>::~EncoderDecoder() = default;

template <class T>
std::string EncoderDecoder<T>::options_text() const {
  return json_object(options_).dump();
}

template <class T>
void EncoderDecoder<T>::run_prepare() {
  source_embedding_.prepare();
  encoder_->prepare();
  target_embedding_.prepare();
  decoder_->prepare();
  attention_->prepare();
  if (dropout_) dropout_->prepare();
}

template <class T>
bool EncoderDecoder<T>::recordable(const Batch& batch) const {
  const Shape source = batch.integers(batch_names::source).shape();
  const Shape target = batch.integers(batch_names::target).shape();
  if (source.rank() < 2 || target.rank() < 2) return false;  // no batch, as it will be told
  const std::optional<Index> read = encoder_->launches(source[0], source[1]);
  const std::optional<Index> written = decoder_->launches(target[0], target[1]);
  return read && written && *read + *written <= RecordedLoops::most_launches;
}

template <class T>
std::vector<LayerDescription> EncoderDecoder<T>::describe(Index length, Index batch) const {
  std::vector<LayerDescription> layers;
  append_layers(*encoder_, length, batch, options_.encoder.size() > 1, layers);
  append_layers(*decoder_, length, batch, options_.decoder.size() > 1, layers);
  return layers;
}

template <class T>
std::optional<double> EncoderDecoder<T>::orthogonality_error() {
  const FaultDomain::Scope scope(this->faults());
  Layer<T>* const layers[] = {encoder_.get(), decoder_.get()};
  return largest_orthogonality_error(layers);
}

template <class T>
typename EncoderDecoder<T>::Encoded EncoderDecoder<T>::encode(const SequenceInput<T>& source, States<T> last,
                                                              Saved& saved) const {
  const SequenceInput<T> vectors = source.with_vectors(source_embedding_.forward(source, {}, {}, saved));
  return {.symbols = source, .vectors = vectors, .keys = encoder_->forward(vectors, {}, last, saved)};
}

template <class T>
typename EncoderDecoder<T>::Decoded EncoderDecoder<T>::decode(const SequenceInput<T>& target,
                                                              TensorView<const T> keys,
                                                              TensorView<const std::int32_t> source_lengths,
                                                              States<const T> start, States<T> last,
                                                              Saved& saved) const {
  const SequenceInput<T> vectors = target.with_vectors(target_embedding_.forward(target, {}, {}, saved));
  const TensorView<const T> states = decoder_->forward(vectors, start, last, saved);
  const TensorView<const T> output =
      attention_->forward(states, {.keys = keys, .lengths = source_lengths}, saved);
  return {.symbols = target, .vectors = vectors, .states = states, .output = output};
}

template <class T>
void EncoderDecoder<T>::run(const Batch& batch, bool gradient) {
  SequenceInput<T> source = symbols_of<T>(batch, batch_names::source, batch_names::source_lengths);
  SequenceInput<T> target = symbols_of<T>(batch, batch_names::target, batch_names::target_lengths);
  const TensorView<const std::int32_t> classes = batch.needed_integers(batch_names::classes);
  check_shape("target", target.symbols.shape(), {target.length(), source.batch()});
  check_shape("classes", classes.shape(), target.symbols.shape());
  if (gradient) source.noise = target.noise = this->noise();
  saved_.clear();
  scratch_.clear();
  // 1. Both networks.
  last_views_.clear();
  start_views_.clear();
  for (Index i = 0; i < static_cast<Index>(last_states_.size()); ++i) {
    Tensor<T>& last = last_states_[static_cast<std::size_t>(i)];
    last.reserve(encoder_->state_shape(i, source.batch()));
    last_views_.push_back(last);
    start_views_.push_back(last);
  }
  const Encoded encoded = encode(source, last_views_, saved_);
  const Decoded decoded = decode(target, encoded.keys, source.lengths, start_views_, {}, saved_);
  const SequenceInput<T> output = target.with_vectors(decoded.output);
  const TensorView<const T> read = dropout_ ? dropout_->forward(output, {}, {}, saved_) : decoded.output;
  // 2. The loss. The decoder has checked the lengths.
  const TensorView<std::int32_t> live = scratch_.push<std::int32_t>(classes.shape());
  copy_live_classes(classes, target.lengths, live);
  if (!gradient) return output_.loss(read, live, loss_, scratch_);
  TensorView<T> d_output = scratch_.push<T>(read.shape());
  output_.loss_and_gradient(read, live, options_.label_smoothing, d_output, loss_, scratch_);
  // 3. Back through all of it.
  if (dropout_) {
    const TensorView<T> d_kept = scratch_.push<T>(read.shape());
    dropout_->backward(output, {.d_output = d_output, .d_input = d_kept}, saved_, scratch_);
    d_output = d_kept;
  }
  backward(encoded, decoded, d_output);
}

/// From the gradient of y; that of the softmax's parameters is there already.
template <class T>
void EncoderDecoder<T>::backward(const Encoded& encoded, const Decoded& decoded, TensorView<T> d_output) {
  const TensorView<T> d_states = scratch_.push<T>(decoded.states.shape());
  const TensorView<T> d_keys = scratch_.push<T>(encoded.keys.shape());
  const TensorView<T> d_target = scratch_.push<T>(decoded.vectors.vectors.shape());
  const TensorView<T> d_source = scratch_.push<T>(encoded.vectors.vectors.shape());
  d_start_views_.clear();
  d_last_views_.clear();
  for (const Tensor<T>& state : last_states_) {
    d_start_views_.push_back(scratch_.push<T>(state.shape()));
    d_last_views_.push_back(d_start_views_.back());
  }
  attention_->backward(decoded.states, {.keys = encoded.keys, .lengths = encoded.symbols.lengths}, d_output,
                       d_states, d_keys, saved_, scratch_);
  decoder_->backward(decoded.vectors, {.d_output = d_states, .d_input = d_target, .d_start = d_start_views_},
                     saved_, scratch_);
  // The gradient of a tied softmax is there already.
  target_embedding_.backward(
      decoded.symbols,
      {.d_output = d_target, .parameters = options_.tied ? Gradients::add : Gradients::overwrite}, saved_,
      scratch_);
  encoder_->backward(encoded.vectors, {.d_output = d_keys, .d_last = d_last_views_, .d_input = d_source},
                     saved_, scratch_);
  source_embedding_.backward(encoded.symbols, {.d_output = d_source}, saved_, scratch_);
}

template <class T>
EncoderDecoder<T>::Generator::Generator(EncoderDecoder& model)
    : model_(model),
      keys_(Shape{0}, model.device()),
      lengths_(Shape{0}, model.device()),
      symbols_(Shape{0}, model.device()),
      rows_(Shape{0}, model.device()),
      outputs_(Shape{0}, model.device()),
      other_keys_(Shape{0}, model.device()),
      other_state_(Shape{0}, model.device()),
      other_lengths_(Shape{0}, model.device()),
      saved_(model.device()) {
  for (Index i = 0; i < model.decoder_->state_count(); ++i) states_.emplace_back(Shape{0}, model.device());
  model_.prepare();
}

template <class T>
void EncoderDecoder<T>::Generator::set_views() {
  views_.assign(states_.begin(), states_.end());
  const_views_.assign(states_.begin(), states_.end());
}

template <class T>
void EncoderDecoder<T>::Generator::start(const Batch& batch) {
  const FaultDomain::Scope scope(model_.faults());
  batch_ = 0;
  batch.check_device(model_.device());
  const auto source = symbols_of<T>(batch, batch_names::source, batch_names::source_lengths);
  for (Index i = 0; i < static_cast<Index>(states_.size()); ++i)
    states_[static_cast<std::size_t>(i)].reserve(model_.decoder_->state_shape(i, source.batch()));
  set_views();
  saved_.clear();
  const States<T> last = model_.carries_states_ ? States<T>(views_) : States<T>();
  const TensorView<const T> keys = model_.encode(source, last, saved_).keys;
  if (!model_.carries_states_) model_.decoder_->initial_state(views_);
  keys_.reserve(keys.shape());
  copy<T>(keys, keys_);
  lengths_.reserve(source.lengths.shape());
  copy<std::int32_t>(source.lengths, lengths_);
  weights_ = {};
  batch_ = source.batch();
}

template <class T>
TensorView<const T> EncoderDecoder<T>::Generator::step(TensorView<const std::int32_t> symbols) {
  const FaultDomain::Scope scope(model_.faults());
  if (batch_ == 0) throw ValueError("a step of a generator that has read no sources; call start() first");
  check_shape("symbols", symbols.shape(), {batch_});
  symbols_.reserve({1, batch_});
  copy<std::int32_t>(symbols, symbols_.view()[0]);
  weights_ = {};
  saved_.clear();
  const Decoded decoded = model_.decode({.symbols = symbols_}, keys_, lengths_, const_views_, views_, saved_);
  weights_ = model_.attention_->weights(saved_)[0];
  outputs_.reserve({batch_, model_.output_.classes()});
  model_.output_.outputs(decoded.output[0], outputs_);
  log_softmax<T>(outputs_);
  return outputs_;
}

template <class T>
TensorView<const T> EncoderDecoder<T>::Generator::attention() const {
  if (weights_.empty()) throw ValueError("a generator has attention weights after a step alone");
  return weights_;
}

template <class T>
template <class U>
void EncoderDecoder<T>::Generator::select_in(Tensor<U>& x, Tensor<U>& other, const Shape& from,
                                             const Shape& to) {
  other.reserve(to);
  gather_sequences<U>(std::as_const(x).view().reshaped(from), rows_, other);
  std::swap(x, other);
}

template <class T>
void EncoderDecoder<T>::Generator::select(std::span<const Index> rows) {
  const FaultDomain::Scope scope(model_.faults());
  const Index count = static_cast<Index>(rows.size());
  if (count == 0) throw ValueError("a generator was told to go on with no answers; expected at least one");
  Tensor<std::int32_t> here(Shape{count});
  for (Index i = 0; i < count; ++i) {
    const Index row = rows[static_cast<std::size_t>(i)];
    if (row < 0 || row >= batch_) {
      throw ValueError(
          fmt::format("a generator was told to go on with answer {}; expected 0 to {}", row, batch_ - 1));
    }
    here(i) = static_cast<std::int32_t>(row);
  }
  rows_.reserve({count});
  copy<std::int32_t>(here, rows_);
  for (Index i = 0; i < static_cast<Index>(states_.size()); ++i) {
    Tensor<T>& state = states_[static_cast<std::size_t>(i)];
    const Index size = state.size() / batch_;
    select_in(state, other_state_, {1, batch_, size}, {1, count, size});
    state.reserve(model_.decoder_->state_shape(i, count));
  }
  const Shape keys = keys_.shape();
  select_in(keys_, other_keys_, keys, {keys[0], count, keys[2]});
  if (!lengths_.empty()) {
    select_in(lengths_, other_lengths_, {1, batch_, 1}, {1, count, 1});
    lengths_.reserve({count});
  }
  weights_ = {};
  batch_ = count;
  set_views();
}

template class EncoderDecoder<float>;
template class EncoderDecoder<double>;
template ParameterSet<float> parameter_layout<float>(const EncoderDecoderOptions&);
template ParameterSet<double> parameter_layout<double>(const EncoderDecoderOptions&);

}  // namespace orthornn
