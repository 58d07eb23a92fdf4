#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "orthornn/tasks/task.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// Whether steps are gray frames, and the target of each is a frame like it.
inline bool predicts_frames(const SequenceData& data) {
  return data.height > 0 && data.every_step && data.features == data.height * data.width &&
         data.values == data.features;
}

/// Throws UsageError for --ahead and a model of another task than one of frames. `task` may be null where no
/// task was found, and `name` is what the file calls it; empty: no task.
void check_ahead(const std::string& file, const Task* task, const std::string& name);

/// Test clips and what the model in a file predicts of them: for each a row of frames and an animation.
/// Throws FileError for a file without such a model, and as the task where it has no data.
std::vector<Picture> clip_pictures(const std::filesystem::path& model, const Task& task);

}  // namespace orthornn::program
