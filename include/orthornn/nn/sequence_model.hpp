#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "orthornn/layers/layer_options.hpp"
#include "orthornn/nn/model.hpp"
#include "orthornn/nn/options.hpp"

namespace orthornn {

/// A sequence model as plain values: input -> cells, layers of any kind one on the other -> readout -> loss.
struct ModelOptions {
  InputOptions input = DenseInput{};
  std::vector<LayerOptions> cells = {OrthogonalCell{}};
  ReadoutOptions readout = EveryStep{};
  Loss loss = Loss::softmax_cross_entropy;

  static void fields(auto&& visit) {
    visit("input", &ModelOptions::input, domain::any, "What is read at each step");
    visit("cells", &ModelOptions::cells, domain::any, "Layers, one on the other");
    visit("readout", &ModelOptions::readout, domain::any, "What is answered");
    visit("loss", &ModelOptions::loss, domain::any, "What training makes small");
  }
};

/// A model of these cells whose input, readout and loss are those that the data ask for.
ModelOptions model_for(const SequenceData& data, std::vector<LayerOptions> cells);

/// Names, shapes and kinds of the parameters of such a model, without memory for them. Throws ValueError for
/// sizes that do not fit, ShapeError for more numbers than fit in 63 bits.
template <class T>
ParameterSet<T> parameter_layout(const ModelOptions& options);

/// States of all layers between two calls, in their order: what `forward` and `Generator` carry on.
template <class T>
using ModelState = std::vector<Tensor<T>>;

/// Layers one on the other: reads batch_names::symbols or features, and lengths; its targets are
/// batch_names::classes or values. With EveryStep, targets beyond a sequence's length do not count.
///
/// Parameters are named cell/.. (cell0/.., cell1/.. when there are several), readout/.. and
/// embedding/vectors. Not movable: layers refer to the parameters.
template <class T>
class SequenceModel final : public Model<T> {
 public:
  /// Draws the parameters from `seed`, the same on every device. Throws ValueError for sizes that do not fit.
  SequenceModel(const Execution& execution, const ModelOptions& options, std::uint64_t seed = 1);
  /// With all parameters zero, for a caller that fills them; then `prepare`.
  SequenceModel(const Execution& execution, const ModelOptions& options, Undrawn);

  const ModelOptions& options() const { return options_; }
  std::string options_text() const override;
  /// Layer i of the options.
  const Layer<T>& cell(Index i) const { return *layers_[first_cell() + static_cast<std::size_t>(i)]; }
  Index cell_count() const { return static_cast<Index>(options_.cells.size()); }

  /// Outputs [T, B, C] or [B, C], valid until the next call. The parameters are read anew at each call.
  /// `initial` holds all states; without it cells start as `Layer::initial_state` says. Throws
  /// ShapeError or ValueError for a batch that does not fit.
  TensorView<const T> forward(const Batch& batch, const ModelState<T>* initial = nullptr);
  /// States of all layers after the last live step of each sequence, copied into `state`.
  void final_state(ModelState<T>& state) const;
  /// What the layers left in the last `forward`, such as DeltaProductLayer::factors, until the next call.
  const Saved& saved() const { return saved_; }

  bool recordable(const Batch& batch) const override;
  /// Of the cells.
  std::vector<LayerDescription> describe(Index length, Index batch) const override;
  /// Of what the recurrences multiply by in this precision, which may be farther from orthogonal than Q.
  /// Allocates nothing on a GPU after the first call.
  std::optional<double> orthogonality_error() override;

  /// One step at a time with carried state, where all layers are causal, with the same numbers as `forward`:
  /// on the CPU bit for bit, on a GPU up to the order in which products of other sizes are summed.
  class Generator {
   public:
    /// Starts where sequences start. The model must outlive it, and its parameters must not change meanwhile.
    /// Throws ValueError for a model with a layer that is not causal.
    Generator(SequenceModel& model, Index batch);
    /// features [B, K], or symbols [B], on any device; returns the outputs [B, C], on the model's, valid
    /// until the next call of the model.
    TensorView<const T> step(TensorView<const float> features);
    TensorView<const T> step(TensorView<const std::int32_t> symbols);
    ModelState<T>& state() { return state_; }

   private:
    TensorView<const T> step();

    SequenceModel& model_;
    Index batch_size_;
    Batch batch_;
    ModelState<T> state_;
  };

 private:
  bool every_step() const { return std::holds_alternative<EveryStep>(options_.readout); }
  /// Where the cells begin among the layers.
  std::size_t first_cell() const { return std::holds_alternative<TokenEmbedding>(options_.input) ? 1 : 0; }
  void run_prepare() override;
  void run(const Batch& batch, bool gradient) override;
  /// `training`: with the noise of this pass.
  void run_layers(const Batch& batch, const ModelState<T>* initial, bool training);
  SequenceInput<T> first_input(const Batch& batch);
  SequenceInput<T> readout_input(TensorView<const T> outputs);
  Shape input_shape(const Batch& batch) const;
  void check_last_step() const;
  void check_initial(const ModelState<T>* initial) const;
  void compute_loss(const Batch& batch, bool gradient);
  void backward();

  using Model<T>::outputs_;
  using Model<T>::loss_;

  ModelOptions options_;
  /// The embedding, where there is one, the cells, and the readout.
  std::vector<std::unique_ptr<Layer<T>>> layers_;
  /// What each layer read in the last forward.
  std::vector<SequenceInput<T>> inputs_;
  /// For each layer the first of its states among those of all, and at the end their number.
  std::vector<std::size_t> first_state_;
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
