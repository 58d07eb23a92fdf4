#pragma once

#include <memory>

#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// `Task::with_length` of a task of these options, which name their task as `Made`.
template <class Options>
std::unique_ptr<Task> task_with_length(Options options, Index length, Index batch) {
  options.length = length;
  options.batch = batch;
  return std::make_unique<typename Options::Made>(options);
}

}  // namespace orthornn
