#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orthornn/layers/delta_product_layer.hpp"
#include "orthornn/layers/recurrent_layer.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn::program {

/// What a training has where neither the command line nor a file says otherwise.
struct TrainingDefaults {
  TaskDefaults task;
  /// Share of all steps in which the learning rates rise.
  double warmup_share = 0;
  Activation activation = OrthogonalCell{}.activation;
  /// Of DeltaProduct blocks, and whether they have no MLP.
  DeltaProductCell delta = {};
  bool no_mlp = false;
  /// Share of all steps that a stage of the curriculum has, for a task with one.
  double curriculum_share = 0;
  /// Empty for that of the optimizer.
  std::optional<double> weight_decay = std::nullopt;

  std::int64_t warmup(std::int64_t steps) const;
};

/// The task's settings, and what its model's cells change of them: one, or those of decoder and encoder. N is
/// 0 for the task's default.
TrainingDefaults training_defaults(const Task& task, const std::vector<LayerOptions>& cells, Index hidden);

}  // namespace orthornn::program
