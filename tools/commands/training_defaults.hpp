#pragma once

#include <cstdint>
#include <string>

#include "orthornn/tasks/task.hpp"

namespace orthornn::program {

/// The cell that is to learn, as the command line has it.
struct CellChoice {
  std::string name;
  /// N; 0 for the task's default.
  Index hidden = 0;
  /// L; 0 for N.
  Index reflections = 0;
};

/// What a training has where neither the command line nor a file says otherwise.
struct TrainingDefaults {
  TaskDefaults task;
  /// Share of all steps in which the learning rates rise.
  double warmup_share = 0;

  std::int64_t warmup(std::int64_t steps) const;
};

/// The task's settings, and what the cell changes of them.
TrainingDefaults training_defaults(const Task& task, const CellChoice& cell);

}  // namespace orthornn::program
