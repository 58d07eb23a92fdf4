#pragma once
// What a page shows of a run beside its files: what its best model does.

#include <fmt/format.h>

#include <string>

#include "commands/task_data.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/tasks/task.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// Calls `add`. Where it throws, notes what the page lacks for that.
template <class Add>
void add_or_note(TrainingRun& run, const std::string& lacking, const Add& add) {
  try {
    add();
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("{}: {}", lacking, error.what()));
  }
}

/// Adds what a model of one sequence shows: its answers on own data, accuracies over the steps, and what its
/// layers do. `data` is where the data of the task are.
void add_sequence_figures(TrainingRun& run, const Task& task, const DataFiles& data);

/// Adds the attention to `sentences`, a file; "": to those that the run directory keeps.
void add_translation_figures(TrainingRun& run, const std::string& sentences);

}  // namespace orthornn::program
