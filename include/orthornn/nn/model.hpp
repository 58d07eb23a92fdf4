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

/// Chooses the constructor of a model that draws nothing.
struct Undrawn {};

/// What a trainer needs of a model: parameters, and the loss of a batch with its gradient.
///
/// A training step is `loss_and_gradient`, then an optimizer on `parameters()`. Loss and gradient are those
/// of the *sum* over all targets, so that shares of a batch add up; `gradient_scale` makes them those of the
/// mean. Buffers grow to the largest batch seen; after that no call allocates.
///
/// Everything lies and runs on the execution's device, where batches must lie too. On a GPU a call only
/// starts the work. What the CPU would throw of a batch's contents or of the parameters is thrown by the next
/// call that waits: `synchronize`, a function of this model that returns a number, or a copy of a tensor to
/// the host. Functions of another model do not throw it.
///
/// To add a model: derive from this class, and give `run_prepare`, `run` and the descriptions. Files
/// (train/model_file.hpp) know it by the "kind" of its options.
template <class T>
class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Execution& execution() const { return execution_; }
  Device device() const { return execution_.device; }
  ParameterSet<T>& parameters() { return parameters_; }
  const ParameterSet<T>& parameters() const { return parameters_; }
  /// JSON text of an object: everything that decides what the model computes, besides the parameters. That of
  /// a program's own model has under "kind" a name that is none of orthornn's kinds.
  virtual std::string options_text() const = 0;

  /// Arranges the parameters as they are now (forms Q, packs matrices). Throws ValueError for parameters that
  /// cannot be (a zero reflection vector).
  void prepare();

  /// The loss of a batch with the parameters as they are now. Throws ShapeError, DeviceError or ValueError
  /// for a batch that does not fit.
  BatchLoss loss(const Batch& batch);
  /// The same, with the gradients of all parameters overwritten.
  BatchLoss loss_and_gradient(const Batch& batch);

  /// The same for a caller that has called `prepare`. The loss stays on the device, as `last_loss`, so that
  /// nothing waits for a GPU.
  void loss_of_prepared(const Batch& batch) { compute(batch, false); }
  void loss_and_gradient_of_prepared(const Batch& batch) { compute(batch, true); }
  /// The BatchLoss that was computed last, [2] on the device, always at the same place.
  TensorView<const double> last_loss() const { return loss_; }
  /// The same on the host; waits for a GPU.
  BatchLoss read_loss() const;
  /// The outputs of the last call; where it made gradients, theirs took their place.
  TensorView<const T> outputs() const { return outputs_; }

  /// Decides what layers draw at random (Dropout) in the gradients that follow; each step of a training needs
  /// another key. Does nothing for a model that draws nothing. Only starts the work.
  void set_noise(std::uint64_t key);

  /// Whether a CUDA graph can and should hold `prepare` and `loss_and_gradient_of_prepared` of such a batch:
  /// neither waits for the device, and they are not too many launches.
  virtual bool recordable(const Batch& batch) const = 0;
  /// Whether outputs and states that a caller can see have the shapes that a call with this batch gives them:
  /// a graph leaves them as they are, for it runs nothing on the host. So it is if the last call had a batch
  /// of these names and shapes.
  virtual bool has_shapes_of(const Batch& batch) const { return shapes_.are_of(batch); }

  /// What is worth knowing of each layer, for B sequences of T steps. Throws as `rollout_way`.
  virtual std::vector<LayerDescription> describe(Index length, Index batch) const = 0;
  /// The largest of `Layer::orthogonality_error`; none for a model without orthogonal layers.
  virtual std::optional<double> orthogonality_error() = 0;

  /// Waits for the device and throws what this model's operations found wrong.
  void synchronize();
  /// Functions that start or wait for work of the model enter it.
  const FaultDomain& faults() const { return faults_; }

 protected:
  /// `draws`: whether `noise` is read.
  Model(const Execution& execution, bool draws);

  virtual void run_prepare() = 0;
  /// outputs_ and loss_ from a batch on this device; with `gradient` the gradients of the parameters, and
  /// that of the outputs in their place.
  virtual void run(const Batch& batch, bool gradient) = 0;
  /// Checks the batch's device; within `work` no shapes are known, and afterwards the batch's.
  template <class Work>
  void run_on(const Batch& batch, const Work& work) {
    const FaultDomain::Scope scope(faults_);
    batch.check_device(device());
    shapes_.clear();
    work();
    shapes_.set(batch);
  }

  /// The key of this pass's random draws, [1].
  TensorView<const std::uint64_t> noise() const { return noise_; }

  ParameterSet<T> parameters_;
  TensorView<T> outputs_;
  Tensor<double> loss_;

 private:
  void compute(const Batch& batch, bool gradient);

  Execution execution_;
  FaultDomain faults_;
  /// [1], or [0] where nothing is drawn.
  Tensor<std::uint64_t> noise_;
  /// Of the last batch; none where a call failed on the way.
  BatchShapes shapes_;
};

extern template class Model<float>;
extern template class Model<double>;

}  // namespace orthornn
