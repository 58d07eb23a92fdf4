#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "orthornn/core/fault_domain.hpp"
#include "orthornn/layers/recurrent_layer.hpp"
#include "orthornn/nn/batch.hpp"
#include "orthornn/nn/loss.hpp"

namespace orthornn {

/// A sequence model as plain values: input -> cells, one on the other -> readout -> loss.
struct ModelOptions {
  InputOptions input = DenseInput{};
  std::vector<RecurrentOptions> cells = {OrthogonalCell{}};
  ReadoutOptions readout = EveryStep{};
  Loss loss = Loss::softmax_cross_entropy;

  static void fields(auto&& visit) {
    visit("input", &ModelOptions::input, domain::any, "What is read at each step");
    visit("cells", &ModelOptions::cells, domain::any, "Cells, one on the other");
    visit("readout", &ModelOptions::readout, domain::any, "What is answered");
    visit("loss", &ModelOptions::loss, domain::any, "What training makes small");
  }
};

/// Names, shapes and kinds of the parameters of such a model, without memory for them. Throws ValueError for
/// sizes that do not fit, ShapeError for more numbers than fit in 63 bits.
template <class T>
ParameterSet<T> parameter_layout(const ModelOptions& options);

/// Chooses the constructor that draws nothing.
struct Undrawn {};

/// States of all layers between two calls, in their order: what `forward` and `Generator` carry on.
template <class T>
using ModelState = std::vector<Tensor<T>>;

/// Parameters are named cell/.. (cell0/.., cell1/.. when there are several), readout/.. and
/// embedding/vectors. A training step is `loss_and_gradient`, then an optimizer on `parameters()`. Not
/// movable: layers refer to the parameters. Buffers grow to the largest batch seen; after that no call
/// allocates.
///
/// Everything lies and runs on the execution's device, where batches must lie too. On a GPU a call only
/// starts the work. What the CPU would throw of a batch's contents or of the parameters is thrown by the next
/// call that waits: `synchronize`, a function of this model that returns a number, or a copy of a tensor to
/// the host. Functions of another model do not throw it.
template <class T>
class SequenceModel {
 public:
  /// Draws the parameters from `seed`, the same on every device. Throws ValueError for sizes that do not fit.
  SequenceModel(const Execution& execution, const ModelOptions& options, std::uint64_t seed = 1);
  /// With all parameters zero, for a caller that fills them; then `prepare`.
  SequenceModel(const Execution& execution, const ModelOptions& options, Undrawn);
  SequenceModel(const SequenceModel&) = delete;
  SequenceModel& operator=(const SequenceModel&) = delete;

  const ModelOptions& options() const { return options_; }
  const Execution& execution() const { return execution_; }
  Device device() const { return execution_.device; }
  ParameterSet<T>& parameters() { return parameters_; }
  const ParameterSet<T>& parameters() const { return parameters_; }
  /// Cell i of the options.
  const Layer<T>& cell(Index i) const { return *layers_[first_cell() + static_cast<std::size_t>(i)]; }
  Index cell_count() const { return static_cast<Index>(options_.cells.size()); }

  /// Forms Q and packs all matrices from the parameters as they are now. `forward`, `loss` and
  /// `loss_and_gradient` do so themselves; alone it is the check that the parameters are a model. Throws
  /// ValueError for parameters that are no transition (a zero reflection vector).
  void prepare();
  /// Outputs [T, B, C] or [B, C], valid until the next call. The parameters are read anew at each call.
  /// `initial` holds all states; without it cells start as `Layer::initial_state` says. Throws
  /// ShapeError or ValueError for a batch that does not fit.
  TensorView<const T> forward(const Batch& batch, const ModelState<T>* initial = nullptr);
  /// The outputs of the last call; where it made gradients, theirs took their place.
  TensorView<const T> outputs() const { return outputs_; }
  /// States of all layers after the last live step of each sequence, copied into `state`.
  void final_state(ModelState<T>& state) const;
  /// Mean loss of a batch. With EveryStep, targets beyond a sequence's length do not count.
  double loss(const Batch& batch);
  /// The same from the outputs of the last `forward`, which must have been of this batch.
  BatchLoss loss_of_last_outputs(const Batch& batch);
  /// The mean loss, with the gradients of all parameters overwritten.
  double loss_and_gradient(const Batch& batch);
  /// The same for a caller that has just called `prepare`; the loss stays on the device, as `last_loss`, so
  /// that nothing waits for a GPU.
  void loss_and_gradient_of_prepared(const Batch& batch);
  /// The BatchLoss that was computed last, [2] on the device, always at the same place.
  TensorView<const double> last_loss() const { return loss_; }
  /// Whether a CUDA graph can and should hold `prepare` and `loss_and_gradient_of_prepared` of such a batch:
  /// neither waits for the device, and they are not too many launches.
  bool recordable(const Batch& batch) const;
  /// Whether the last call had a batch of these shapes, so that outputs, states and buffers have theirs: what
  /// a graph leaves as it is, for it runs nothing on the host.
  bool has_shapes_of(const Batch& batch) const { return shapes_ == batch.shapes(); }

  /// Largest max |I - A^T A| over the cells' AppliedMatrix A, as the last call prepared them: of what the
  /// recurrence multiplies by in this precision, which may be farther from orthogonal than Q. None for a
  /// model without orthogonal cells. Allocates nothing on a GPU after the first call.
  std::optional<double> orthogonality_error();

  /// Waits for the device and throws what this model's operations found wrong.
  void synchronize();
  /// Functions that start or wait for work of the model enter it.
  const FaultDomain& faults() const { return faults_; }

  /// One step at a time with carried state, with the same numbers as `forward`: on the CPU bit for bit, on a
  /// GPU up to the order in which products of other sizes are summed.
  class Generator {
   public:
    /// Starts where sequences start. The model must outlive it, and its parameters must not change meanwhile.
    Generator(SequenceModel& model, Index batch);
    /// features [B, K], or symbols [B], on any device; returns the outputs [B, C], on the model's, valid
    /// until the next call of the model.
    TensorView<const T> step(TensorView<const float> features);
    TensorView<const T> step(TensorView<const std::int32_t> symbols);
    ModelState<T>& state() { return state_; }

   private:
    TensorView<const T> step();

    SequenceModel& model_;
    Batch batch_;
    ModelState<T> state_;
  };

 private:
  bool every_step() const { return std::holds_alternative<EveryStep>(options_.readout); }
  /// Where the cells begin among the layers.
  std::size_t first_cell() const { return std::holds_alternative<TokenEmbedding>(options_.input) ? 1 : 0; }
  TensorView<const T> run(const Batch& batch, const ModelState<T>* initial);
  SequenceInput<T> first_input(const Batch& batch);
  SequenceInput<T> readout_input(TensorView<const T> outputs) const;
  const Shape& input_shape(const Batch& batch) const;
  void check_initial(const ModelState<T>* initial) const;
  void check_device(const Batch& batch) const;
  void compute_loss(const Batch& batch, bool gradient);
  BatchLoss read_loss() const;
  void backward();

  Execution execution_;
  FaultDomain faults_;
  ModelOptions options_;
  ParameterSet<T> parameters_;
  /// The embedding, where there is one, the cells, and the readout.
  std::vector<std::unique_ptr<Layer<T>>> layers_;
  /// What each layer read in the last forward.
  std::vector<SequenceInput<T>> inputs_;
  /// For each layer the first of its states among those of all, and at the end their number.
  std::vector<std::size_t> first_state_;
  ModelState<T> last_states_;
  std::vector<TensorView<T>> last_views_;
  std::vector<TensorView<const T>> start_views_, d_last_views_;
  Saved saved_;
  Saved scratch_;
  TensorView<T> outputs_;
  Tensor<double> loss_;
  /// Of the last batch; none where a call failed on the way.
  std::optional<Batch::Shapes> shapes_;
};

extern template class SequenceModel<float>;
extern template class SequenceModel<double>;
extern template ParameterSet<float> parameter_layout<float>(const ModelOptions&);
extern template ParameterSet<double> parameter_layout<double>(const ModelOptions&);

}  // namespace orthornn
