#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/core/batch.hpp"
#include "orthornn/core/execution.hpp"
#include "orthornn/core/fault_domain.hpp"
#include "orthornn/core/parameters.hpp"
#include "orthornn/layers/layer.hpp"
#include "orthornn/nn/loss.hpp"

namespace orthornn {

/// Tag that chooses the constructor of a model which draws no parameters.
struct Undrawn {};

/// Base of all models. It has what a trainer needs: parameters, and the loss of a batch with its gradient.
///
/// A training step is `loss_and_gradient`, then an optimizer on `parameters()`. Loss and gradient are those
/// of the *sum* over all targets, so that shares of a batch add up; `gradient_scale` gives the factor that
/// makes them those of the mean. Buffers grow to the largest batch seen; after that no call allocates.
///
/// Parameters and operations are on the execution's device, where batches must lie too. On a GPU a call only
/// starts the work. An error in a batch's contents or in the parameters, which the CPU throws at once, is
/// then thrown by the next call that waits: `synchronize`, a function of this model that returns a number, or
/// a copy of a tensor to the host. Functions of another model do not throw it.
///
/// To add a model: derive from this class, and give `run_prepare`, `run` and the descriptions. Files
/// (train/model_file.hpp) know it by the "kind" of its options.
template <class T>
class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Where and how the model computes.
  const Execution& execution() const { return execution_; }
  /// Device on which the model computes.
  Device device() const { return execution_.device; }
  /// Parameters and gradients of the model.
  ParameterSet<T>& parameters() { return parameters_; }
  /// Parameters and gradients of the model, to read.
  const ParameterSet<T>& parameters() const { return parameters_; }
  /// Options of the model as the JSON text of an object: everything, besides the parameters, that decides
  /// what the model computes. A program's own model has under "kind" a name that is not among orthornn's
  /// kinds.
  virtual std::string options_text() const = 0;

  /// Reads the parameters as they are now and arranges them (forms Q, packs matrices). Throws ValueError for
  /// parameters that are not allowed, such as a zero reflection vector.
  void prepare();

  /// Computes the loss of a batch with the parameters as they are now. Waits for a GPU. Throws ShapeError,
  /// DeviceError or ValueError for a batch that does not fit.
  BatchLoss loss(const Batch& batch);
  /// Computes the loss of a batch and overwrites the gradients of all parameters, with the parameters as they
  /// are now. Waits for a GPU. Throws as `loss`.
  BatchLoss loss_and_gradient(const Batch& batch);

  /// Computes the loss of a batch with the parameters as they were prepared last. The loss stays on the
  /// device, as `last_loss`, so that nothing waits for a GPU. Throws as `loss`.
  void loss_of_prepared(const Batch& batch) { compute(batch, false); }
  /// Computes the loss of a batch and overwrites the gradients, with the parameters as they were prepared
  /// last. The loss stays on the device, as `last_loss`, so that nothing waits for a GPU. Throws as `loss`.
  void loss_and_gradient_of_prepared(const Batch& batch) { compute(batch, true); }
  /// BatchLoss that was computed last, [2] on the device. Its address never changes.
  TensorView<const double> last_loss() const { return loss_; }
  /// BatchLoss that was computed last, on the host. Waits for a GPU, and throws as `synchronize`.
  BatchLoss read_loss() const;
  /// Outputs of the last call; where it computed gradients, the gradient of the sum with respect to the
  /// outputs.
  TensorView<const T> outputs() const { return outputs_; }

  /// Bytes that the layers keep of the last batch until its backward; 0 for a model that does not know.
  virtual std::size_t saved_bytes() const { return 0; }

  /// Shapes of the states of `batch` sequences that go from one piece of long sequences to the next
  /// (Batch::piece), a shape for each state of the layers; none for a model that starts each piece anew.
  virtual std::vector<Shape> state_shapes(Index /*batch*/) const { return {}; }
  /// States after the last batch that was a piece, on the model's device, in which the next piece starts;
  /// none before the first piece.
  const std::vector<Tensor<T>>& carried() const { return carried_; }
  /// Copies the states in which the next piece starts, from any device.
  void set_carried(const std::vector<Tensor<T>>& states);

  /// Whether an output depends on later steps of what is read: where these are the targets
  /// (`check_forecast`), the model would see the answer.
  virtual bool reads_ahead() const { return false; }

  /// Sets the key of the random numbers that layers such as Dropout draw in the gradients that follow; each
  /// step of a training needs another key. Does nothing for a model that draws none. Only starts the work.
  void set_noise(std::uint64_t key);

  /// Whether a CUDA graph can and should hold `prepare` and `loss_and_gradient_of_prepared` of such a batch:
  /// neither waits for the device, and they are not too many launches.
  virtual bool recordable(const Batch& batch) const = 0;
  /// Whether outputs and states that a caller can see have the shapes that a call with this batch gives them.
  /// A graph runs nothing on the host, and so it leaves the shapes as they are. True if the last call had a
  /// batch of these names and shapes.
  virtual bool has_shapes_of(const Batch& batch) const { return shapes_.are_of(batch); }

  /// Describes each layer, for `batch` sequences of `length` steps. Throws as `rollout_way`.
  virtual std::vector<LayerDescription> describe(Index length, Index batch) const = 0;
  /// Largest orthogonality error of the layers (Layer::orthogonality_error); no value for a model without
  /// orthogonal layers.
  virtual std::optional<double> orthogonality_error() = 0;

  /// Waits for the device and throws what this model's operations found wrong.
  void synchronize();
  /// Fault domain of the model: functions that start or wait for its work open a FaultDomain::Scope of it.
  const FaultDomain& faults() const { return faults_; }

 protected:
  /// Begins a model without parameters. `draws` says whether its layers read `noise`.
  Model(const Execution& execution, bool draws);

  /// Arranges the parameters as they are now.
  virtual void run_prepare() = 0;
  /// Computes outputs_ and loss_ from a batch on this device; with `gradient` also the gradients of the
  /// parameters, and the gradient of the outputs in the place of outputs_.
  virtual void run(const Batch& batch, bool gradient) = 0;
  /// Checks the batch's device, calls `work`, and keeps the batch's shapes for `has_shapes_of`. Where `work`
  /// throws, no shapes are kept.
  template <class Work>
  void run_on(const Batch& batch, const Work& work) {
    const FaultDomain::Scope scope(faults_);
    batch.check_device(device());
    shapes_.clear();
    work();
    shapes_.set(batch);
  }

  /// Key of this pass's random numbers, [1]; empty for a model that draws none.
  TensorView<const std::uint64_t> noise() const { return noise_; }

  ParameterSet<T> parameters_;  ///< Parameters and gradients, to which layers add.
  TensorView<T> outputs_;       ///< Outputs of the last call.
  Tensor<double> loss_;         ///< BatchLoss of the last call, [2].
  /// States in which the next piece starts; `run` writes them for a batch that is a piece.
  std::vector<Tensor<T>> carried_;

 private:
  void compute(const Batch& batch, bool gradient);

  Execution execution_;
  FaultDomain faults_;
  /// [1], or [0] where nothing is drawn.
  Tensor<std::uint64_t> noise_;
  /// Shapes of the last batch; none where a call failed on the way.
  BatchShapes shapes_;
};

/// Throws ValueError for a model that sees the answer: the data are a forecast (SequenceData::is_forecast),
/// and it reads later steps. `Trainer`, `evaluate` and `model_for` call it.
void check_forecast(const SequenceData& data, bool reads_ahead);

extern template class Model<float>;
extern template class Model<double>;

}  // namespace orthornn
