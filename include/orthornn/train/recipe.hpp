#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// Settings with which a model is known to learn a task, under a cosine schedule that ends with the last
/// step. The command line starts from them.
struct Recipe {
  /// Size N of the state.
  Index hidden_size = 128;
  /// How the transition is drawn.
  Init init = Init::henaff;
  /// Activation of orthogonal cells.
  Activation activation = OrthogonalCell{}.activation;
  /// Options of DeltaProduct layers, without their hidden size.
  DeltaProductCell delta = {};
  /// Whether DeltaProduct blocks have a gated MLP.
  bool gated_mlp = true;

  /// Sequences B of a batch.
  Index batch = 128;
  /// Passes over the data that `steps` are, where a step has one batch; 0 for a task whose steps are not
  /// counted in epochs.
  Index epochs = 0;
  /// Training steps.
  std::int64_t steps = 1000;
  /// Training steps between two evaluations on held-out data.
  std::int64_t evaluation_steps = 100;
  /// Share of all steps in which the learning rates rise.
  double warmup_share = 0;
  /// Share of all steps that each stage of a curriculum has, for a task with one.
  double curriculum_share = 0;

  /// Name of the optimizer, as in `Optimizer::name()`.
  std::string optimizer = "rmsprop";
  /// Learning rate of ordinary parameters.
  double learning_rate = 1e-3;
  /// Learning rate of orthogonal parameters.
  double learning_rate_orthogonal = 1e-4;
  /// Weight decay; no value for that of the optimizer.
  std::optional<double> weight_decay = std::nullopt;
  /// Largest norm of the gradient; 0 for no limit.
  double clip = 1;
};

/// Returns the recipe of a task for a model with these recurrent layers: one, or those of decoder and
/// encoder. `hidden_size` is N where it is chosen already, and 0 for that of the recipe. A task that is not
/// among those of orthornn gets the recipe of its layers. Reads the data of a task whose steps are counted in
/// epochs, and throws as `Task::load`.
Recipe recipe_for(const Task& task, const std::vector<LayerOptions>& layers, Index hidden_size = 0);

/// Whether one of the layers, or of those within them, has a point of a Stiefel manifold as a parameter.
bool has_stiefel_points(const std::vector<LayerOptions>& layers);
/// Returns the recipe with what such points need, if the layers have any: the optimizer rgd-adam, for the
/// others would leave the manifold, and one learning rate for all parameters. For a transition that is a
/// point, it is at most 0.1 divided by the steps of a sequence. Beside another orthogonal transition,
/// orthogonal parameters keep their rate.
Recipe recipe_for_points(const Task& task, const std::vector<LayerOptions>& layers, Recipe recipe);

}  // namespace orthornn
