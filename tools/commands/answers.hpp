#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "orthornn/tasks/task.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// What the model in a file answers on test data of a task with targets of one sequence: all of them where
/// targets are classes and the work is some seconds, or a few sequences. `class_names` may be empty: classes
/// are numbers then. Throws FileError for a file without such a model, and as the task where it has no data.
Answers answers_on_test_data(const std::filesystem::path& model, const Task& task,
                             const std::vector<std::string>& class_names);

}  // namespace orthornn::program
