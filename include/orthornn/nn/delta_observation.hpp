#pragma once

#include <span>
#include <string>
#include <vector>

#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/nn/sequence_model.hpp"

namespace orthornn {

/// What one head of a DeltaProduct layer did along a sequence.
struct DeltaHeadObservation {
  /// Step sizes beta, those of a step's factors one after the other.
  std::vector<double> betas;
  /// Of layers with two factors a step: angles in (0, pi) by which steps turn (rotation_angle) ...
  std::vector<double> angles;
  /// ... and the number of steps whose product has real eigenvalues alone.
  Index real_steps = 0;
  /// effective_rank of the state after each step that was asked for.
  std::vector<double> ranks;
};

struct DeltaObservation {
  /// What comes before the names of the layer's parameters, and a '/'.
  std::string layer;
  /// n, K and V.
  Index factors = 0, key_size = 0, value_size = 0;
  /// Whether the layer's steps are products of two factors I - beta k k^T, so that angles were looked for.
  bool has_angles = false;
  std::vector<DeltaHeadObservation> heads;
};

/// Runs the model on a batch of one sequence, and looks at each DeltaProduct layer in it, in their order.
/// `rank_steps`: the steps, 0 for the first, after which ranks are computed; they rise. Steps beyond the end
/// of the sequence are left out. Steps of a layer that reads backward in time are counted from the end. The
/// parameters are read anew.
/// Throws as `SequenceModel::forward`, DeviceError for a model that is not on the CPU, ShapeError for a batch
/// of several sequences, and ValueError for numbers that are not finite.
template <class T>
std::vector<DeltaObservation> observe_delta_products(SequenceModel<T>& model, const Batch& batch,
                                                     std::span<const Index> rank_steps);

}  // namespace orthornn
