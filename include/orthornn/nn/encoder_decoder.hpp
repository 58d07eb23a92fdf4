#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "orthornn/layers/embedding_layer.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/nn/model.hpp"
#include "orthornn/nn/softmax_output.hpp"

namespace orthornn {

/// Options of an EncoderDecoder.
struct EncoderDecoderOptions {
  static constexpr const char* name = "encoder_decoder";  ///< Name in files.
  /// Number of symbols of sources, 1 or more.
  Index source_symbols = 2;
  /// Number of symbols of answers, 1 or more.
  Index target_symbols = 2;
  /// Size of a symbol's vector, 1 or more.
  Index embedding_size = 128;
  /// Layers, one on the other, that read the vectors of the source.
  std::vector<LayerOptions> encoder = {OrthogonalCell{}};
  /// Layers, one on the other, that read the vectors of the answer so far; all of them causal.
  std::vector<LayerOptions> decoder = {OrthogonalCell{}};
  /// Whether the softmax has the vectors of the answer's symbols as its weights.
  bool tied = false;
  /// Share of the softmax's inputs that become 0 in training, 0 to below 1.
  double dropout = 0;
  /// Share of each target that is spread over all symbols in training, 0 to below 1.
  double label_smoothing = 0;

  static void fields(auto&& visit) {
    using O = EncoderDecoderOptions;
    visit("source_symbols", &O::source_symbols, domain::count, "Known symbols of the source");
    visit("target_symbols", &O::target_symbols, domain::count, "Known symbols of the answer");
    visit("embedding_size", &O::embedding_size, domain::count, "Numbers in a symbol's vector");
    visit("encoder", &O::encoder, domain::any, "Layers, one on the other, that read the source");
    visit("decoder", &O::decoder, domain::any, "Layers, one on the other, that read the answer so far");
    visit("tied", &O::tied, domain::any,
          "The softmax has the vectors of the answer's symbols as its weights");
    visit("dropout", &O::dropout, domain::below_one, "Dropout of what the softmax reads");
    visit("label_smoothing", &O::label_smoothing, domain::below_one,
          "Share of each target that is spread over all symbols");
  }
};

/// Names, shapes and kinds of the parameters of an EncoderDecoder of these options, without memory for them.
/// Throws as the model's constructor.
template <class T>
ParameterSet<T> parameter_layout(const EncoderDecoderOptions& options);

template <class T>
class DecoderAttention;

/// A model that reads one sequence and answers with another one, of another length, by attention:
///
///     k [S, B, K]  outputs of the encoder for the vectors of the symbols batch_names::source
///     h [T, B, N]  outputs of the decoder for the vectors of the symbols batch_names::target
///     c [T, B, K]  attention of W_a h over k, with the scale 1 / sqrt(K)
///     y [T, B, M]  tanh(W_c [c; h]); M = N, or the size of a symbol's vector where the softmax is tied
///
/// (Luong, Pham and Manning, EMNLP 2015, equations 5, 7 and 8). The answers batch_names::classes have the
/// probabilities softmax(W y + b). Classes that are negative or beyond target_lengths do not count. Attention
/// is not fed to the decoder's next step, so the decoder runs over whole sequences.
///
/// The decoder starts from the encoder's last states where the two have equally many states of equal shapes;
/// otherwise it starts in its own initial states.
///
/// With label smoothing, gradients are those of the smoothed loss. The loss itself, and `last_loss`, stay the
/// loss of the targets, from which perplexities are computed.
///
/// `outputs` is empty: the outputs of a batch never exist as a whole (SoftmaxOutput).
///
/// Parameters are named source_embedding/vectors, encoder/0/.., target_embedding/vectors, decoder/0/..,
/// attention/query/.., attention/vector/.. and output/... The model cannot be moved: layers refer to the
/// parameters.
template <class T>
class EncoderDecoder final : public Model<T> {
 public:
  /// Makes a model with parameters drawn from `seed`, which gives equal ones on every device. `most_outputs`
  /// is as in SoftmaxOutput. Throws ValueError for sizes that do not fit and for a decoder that reads
  /// backward in time.
  EncoderDecoder(const Execution& execution, const EncoderDecoderOptions& options, std::uint64_t seed = 1,
                 Index most_outputs = SoftmaxOutput<T>::default_most_outputs);
  /// Makes a model with all parameters zero, for a caller that fills them and then calls `prepare`. Throws as
  /// the other constructor.
  EncoderDecoder(const Execution& execution, const EncoderDecoderOptions& options, Undrawn,
                 Index most_outputs = SoftmaxOutput<T>::default_most_outputs);
  ~EncoderDecoder() override;

  /// Options that the model was made with.
  const EncoderDecoderOptions& options() const { return options_; }
  std::string options_text() const override;
  /// Layers of the encoder, as one.
  const Layer<T>& encoder() const { return *encoder_; }
  /// Layers of the decoder, as one.
  const Layer<T>& decoder() const { return *decoder_; }
  /// Whether the decoder starts from the encoder's last states.
  bool carries_states() const { return carries_states_; }

  bool recordable(const Batch& batch) const override;
  /// True for every batch: `outputs` stays empty, and each call sets all shapes before it reads them. So
  /// batches of many shapes in turn may each have their graph.
  bool has_shapes_of(const Batch&) const override { return true; }
  /// Describes the layers of the encoder, then those of the decoder.
  std::vector<LayerDescription> describe(Index length, Index batch) const override;
  std::optional<double> orthogonality_error() override;

  /// Generates answers step by step, with the model's numbers up to the order of sums. A generator has states
  /// and memory of its own, so that several generators of one model may take turns.
  // The decoder's last states take the place of its first ones, as `Layer::forward` allows.
  class Generator {
   public:
    /// Prepares the model with the parameters as they are now. The model must outlive the generator, and the
    /// parameters must not change while it is used.
    explicit Generator(EncoderDecoder& model);

    /// Reads B sources, batch_names::source and source_lengths, and begins an answer to each. Throws as the
    /// model's loss.
    void start(const Batch& batch);
    /// Number B of answers that are going on.
    Index batch() const { return batch_; }
    /// Goes on by one symbol. `symbols` [B], on any device, is the last symbol of each answer, at first the
    /// begin symbol. Returns the natural logarithms of the probabilities of the next symbol, [B, V], on the
    /// model's device, valid until the next call. Throws ShapeError, and ValueError before `start` and for an
    /// unknown symbol.
    TensorView<const T> step(TensorView<const std::int32_t> symbols);
    /// Attention weights of the last step, [B, S], valid until the next call. Throws ValueError before a
    /// step.
    TensorView<const T> attention() const;
    /// Goes on with other answers: answer i becomes a copy of answer rows[i], with its source. So a beam
    /// search copies, orders and drops its hypotheses. Throws ValueError for no rows and for one outside 0 to
    /// B - 1.
    void select(std::span<const Index> rows);

   private:
    template <class U>
    void select_in(Tensor<U>& x, Tensor<U>& other, const Shape& from, const Shape& to);
    void set_views();

    EncoderDecoder& model_;
    Index batch_ = 0;
    Tensor<T> keys_;
    Tensor<std::int32_t> lengths_;
    std::vector<Tensor<T>> states_;
    std::vector<TensorView<T>> views_;
    std::vector<TensorView<const T>> const_views_;
    Tensor<std::int32_t> symbols_, rows_;
    Tensor<T> outputs_;
    TensorView<const T> weights_;
    /// Memory that `select` writes to, and then swaps.
    Tensor<T> other_keys_, other_state_;
    Tensor<std::int32_t> other_lengths_;
    Saved saved_;
  };

 private:
  /// What a forward of the encoder left: the symbols, their vectors, and the outputs k.
  struct Encoded {
    SequenceInput<T> symbols, vectors;
    TensorView<const T> keys;
  };
  /// What a forward of the decoder left: the symbols, their vectors, the outputs h, and y.
  struct Decoded {
    SequenceInput<T> symbols, vectors;
    TensorView<const T> states, output;
  };

  void run_prepare() override;
  void run(const Batch& batch, bool gradient) override;
  /// `last` as in Layer::forward.
  Encoded encode(const SequenceInput<T>& source, States<T> last, Saved& saved) const;
  /// `start` and `last` as in Layer::forward; keys [S, B, K] of sources of these lengths.
  Decoded decode(const SequenceInput<T>& target, TensorView<const T> keys,
                 TensorView<const std::int32_t> source_lengths, States<const T> start, States<T> last,
                 Saved& saved) const;
  void backward(const Encoded& encoded, const Decoded& decoded, TensorView<T> d_output);

  using Model<T>::loss_;

  EncoderDecoderOptions options_;
  EmbeddingLayer<T> source_embedding_;
  std::unique_ptr<Layer<T>> encoder_;
  EmbeddingLayer<T> target_embedding_;
  std::unique_ptr<Layer<T>> decoder_;
  std::unique_ptr<DecoderAttention<T>> attention_;
  /// Null without dropout.
  std::unique_ptr<Layer<T>> dropout_;
  SoftmaxOutput<T> output_;
  bool carries_states_;
  /// The encoder's, where the decoder starts from them.
  std::vector<Tensor<T>> last_states_;
  std::vector<TensorView<T>> last_views_, d_start_views_;
  std::vector<TensorView<const T>> start_views_, d_last_views_;
  Saved saved_;
  Saved scratch_;
};

extern template class EncoderDecoder<float>;
extern template class EncoderDecoder<double>;
extern template ParameterSet<float> parameter_layout<float>(const EncoderDecoderOptions&);
extern template ParameterSet<double> parameter_layout<double>(const EncoderDecoderOptions&);

}  // namespace orthornn
