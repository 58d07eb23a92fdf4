#pragma once

#include <span>
#include <string>
#include <vector>

#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/nn/sequence_model.hpp"

namespace orthornn {

/// Observations of one head of a DeltaProduct layer along a sequence.
struct DeltaHeadObservation {
  /// Step sizes beta of all steps, with the step sizes of a step's factors one after the other.
  std::vector<double> betas;
  /// Angles in radians, in (0, pi), by which steps turn (rotation_angle), where a layer has two factors a
  /// step.
  std::vector<double> angles;
  /// Number of steps whose product of two factors has real eigenvalues alone.
  Index real_steps = 0;
  /// Effective rank of the state after each step that was asked for.
  std::vector<double> ranks;
};

/// Observations of one DeltaProduct layer along a sequence.
struct DeltaObservation {
  /// Beginning of the names of the layer's parameters, without a '/' at its end.
  std::string layer;
  Index factors = 0,   ///< Number n of factors a step.
      key_size = 0,    ///< Size K of a key.
      value_size = 0;  ///< Size V of a value.
  /// Whether the layer's steps are products of two factors I - beta k k^T, so that angles were computed.
  bool has_angles = false;
  /// Observations of each head.
  std::vector<DeltaHeadObservation> heads;
};

/// Runs the model on a batch of one sequence, and observes each DeltaProduct layer in it, in their order.
/// `rank_steps` are the steps, 0 for the first, after which ranks are computed, in rising order. Steps beyond
/// the end of the sequence are left out. Steps of a layer that reads backward in time are counted from the
/// end. The parameters are read anew. Throws as `SequenceModel::forward`, DeviceError for a model that is not
/// on the CPU, ShapeError for a batch of several sequences, and ValueError for numbers that are not finite.
template <class T>
std::vector<DeltaObservation> observe_delta_products(SequenceModel<T>& model, const Batch& batch,
                                                     std::span<const Index> rank_steps);

}  // namespace orthornn
