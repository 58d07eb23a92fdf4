#pragma once

#include <cstdint>

#include "orthornn/layers/recurrent_layer.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn::program {

/// What a training has where neither the command line nor a file says otherwise.
struct TrainingDefaults {
  TaskDefaults task;
  /// Share of all steps in which the learning rates rise.
  double warmup_share = 0;
  Activation activation = OrthogonalCell{}.activation;

  std::int64_t warmup(std::int64_t steps) const;
};

/// The task's settings, and what the cell changes of them. N is 0 for the task's default.
TrainingDefaults training_defaults(const Task& task, const LayerOptions& cell, Index hidden);

}  // namespace orthornn::program
