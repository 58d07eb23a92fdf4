#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "orthornn/layers/embedding_layer.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/layers/linear_layer.hpp"
#include "orthornn/layers/stack_layer.hpp"
#include "orthornn/nn/model.hpp"
#include "orthornn/nn/options.hpp"

namespace orthornn {

/// Options of a SequenceModel: an input, layers of any kind one on the other, a readout and a loss.
struct ModelOptions {
  /// Input of the first layer.
  InputOptions input = DenseInput{};
  /// Layers, one on the other; at least one.
  std::vector<LayerOptions> cells = {OrthogonalCell{}};
  /// Readout, a linear map of the outputs of the last layer.
  ReadoutOptions readout = EveryStep{};
  /// Loss of the readout's outputs.
  Loss loss = Loss::softmax_cross_entropy;

  static void fields(auto&& visit) {
    visit("input", &ModelOptions::input, domain::any, "What is read at each step");
    visit("cells", &ModelOptions::cells, domain::any, "Layers, one on the other");
    visit("readout", &ModelOptions::readout, domain::any, "What is answered");
    visit("loss", &ModelOptions::loss, domain::any, "What training makes small");
  }
};

/// Options of a model of these layers, with the input, the readout and the loss that the data need. Frames at
/// every step are answered at each pixel (EveryPixel), where the last layer has a state for each pixel.
/// Throws ValueError as `check_forecast`.
ModelOptions model_for(const SequenceData& data, std::vector<LayerOptions> cells);

/// Names, shapes and kinds of the parameters of a SequenceModel of these options, without memory for them.
/// Throws ValueError for sizes that do not fit, ShapeError for more numbers than fit in 63 bits.
template <class T>
ParameterSet<T> parameter_layout(const ModelOptions& options);

/// States of all layers of a model, in their order, which are carried from one call to the next.
template <class T>
using ModelState = std::vector<Tensor<T>>;

/// A model of layers one on the other. It reads batch_names::symbols or features, and lengths; its targets
/// are batch_names::classes or values, and may have weights. With EveryStep, targets beyond a sequence's
/// length do not count.
///
/// A batch that is a piece of long sequences (Batch::piece) starts in the states after the piece before.
/// Gradients end at the start of a piece: backpropagation through time is truncated there. A piece throws
/// ValueError where a layer is not causal, and where a later piece comes without the one before.
///
/// Parameters are named cell/.. (cell0/.., cell1/.. when there are several layers), readout/.. and
/// embedding/vectors. The model cannot be moved: layers refer to the parameters.
template <class T>
class SequenceModel final : public Model<T> {
 public:
  /// Makes a model with parameters drawn from `seed`, which gives equal ones on every device. Throws
  /// ValueError for sizes that do not fit.
  SequenceModel(const Execution& execution, const ModelOptions& options, std::uint64_t seed = 1);
  /// Makes a model with all parameters zero, for a caller that fills them and then calls `prepare`. Throws
  /// ValueError for sizes that do not fit.
  SequenceModel(const Execution& execution, const ModelOptions& options, Undrawn);

  /// Options that the model was made with.
  const ModelOptions& options() const { return options_; }
  std::string options_text() const override;
  /// Layer i of the options.
  const Layer<T>& cell(Index i) const { return *cells_.layers()[static_cast<std::size_t>(i)]; }
  /// Number of layers of the options.
  Index cell_count() const { return static_cast<Index>(options_.cells.size()); }

  /// Computes the outputs [T, B, C] or [B, C], valid until the next call. The parameters are read anew at
  /// each call. `initial` holds all states; without it layers start in their initial states, or a piece in
  /// those after the piece before. Throws
  /// ShapeError, DeviceError or ValueError for a batch that does not fit.
  TensorView<const T> forward(const Batch& batch, const ModelState<T>* initial = nullptr);
  /// Copies the states of all layers after the last live step of each sequence into `state`.
  void final_state(ModelState<T>& state) const;
  /// Stack with the tensors that the layers left in the last `forward`, valid until the next call;
  /// DeltaProductLayer::factors reads it.
  const Saved& saved() const { return saved_; }

  std::size_t saved_bytes() const override { return saved_.used_bytes(); }
  bool reads_ahead() const override { return !cells_.is_causal(); }
  std::vector<Shape> state_shapes(Index batch) const override;
  bool recordable(const Batch& batch) const override;
  /// Describes the layers of the options.
  std::vector<LayerDescription> describe(Index length, Index batch) const override;
  /// Largest orthogonality error of the matrices by which the recurrences multiply in the model's precision,
  /// which may be farther from orthogonal than Q, and of the points of orthogonal maps in double. Allocates
  /// nothing on a GPU after the first call.
  std::optional<double> orthogonality_error() override;

  /// Runs a model one step at a time with carried states, where all layers are causal. Its numbers are those
  /// of `forward`: on the CPU bit for bit, on a GPU up to the order in which products of other sizes are
  /// summed.
  class Generator {
   public:
    /// Starts `batch` sequences in their initial states. The model must outlive the generator, and its
    /// parameters must not change while it is used. Throws ValueError for a model with a layer that is not
    /// causal.
    Generator(SequenceModel& model, Index batch);
    /// Goes on by a step of features [B, K], on any device. Returns the outputs [B, C], on the model's
    /// device, valid until the next call of the model.
    TensorView<const T> step(TensorView<const float> features);
    /// Goes on by a step of symbols [B], on any device. Returns the outputs [B, C], on the model's device,
    /// valid until the next call of the model.
    TensorView<const T> step(TensorView<const std::int32_t> symbols);
    /// States after the last step, which may be replaced.
    ModelState<T>& state() { return state_; }

   private:
    TensorView<const T> step();

    SequenceModel& model_;
    Index batch_size_;
    Batch batch_;
    ModelState<T> state_;
  };

 private:
  bool every_step() const { return answers_every_step(options_.readout); }
  void run_prepare() override;
  void run(const Batch& batch, bool gradient) override;
  /// `training`: with the noise of this pass.
  void run_layers(const Batch& batch, const ModelState<T>* initial, bool training);
  SequenceInput<T> first_input(const Batch& batch);
  SequenceInput<T> readout_input(TensorView<const T> outputs);
  Shape input_shape(const Batch& batch) const;
  void check_last_step() const;
  void check_initial(const ModelState<T>* initial) const;
  const ModelState<T>* start_of_piece(const Batch& batch) const;
  void compute_loss(const Batch& batch, bool gradient);
  void backward();

  using Model<T>::outputs_;
  using Model<T>::loss_;
  using Model<T>::carried_;

  ModelOptions options_;
  /// Null where the input is no TokenEmbedding.
  std::unique_ptr<EmbeddingLayer<T>> embedding_;
  StackLayer<T> cells_;
  LinearLayer<T> readout_;
  /// What the model, its cells and its readout read in the last forward.
  SequenceInput<T> input_, cells_input_, readout_input_;
  ModelState<T> last_states_;
  /// The last outputs [B, N] where they are no state of their layer.
  Tensor<T> last_outputs_;
  std::vector<TensorView<T>> last_views_;
  std::vector<TensorView<const T>> start_views_, d_last_views_;
  Saved saved_;
  Saved scratch_;
};

extern template class SequenceModel<float>;
extern template class SequenceModel<double>;
extern template ParameterSet<float> parameter_layout<float>(const ModelOptions&);
extern template ParameterSet<double> parameter_layout<double>(const ModelOptions&);

}  // namespace orthornn
