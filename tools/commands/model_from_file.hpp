#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "orthornn/orthornn.hpp"

namespace orthornn::program {

/// The task that a model file was trained on, with the file's permutation. Throws FileError when it has none.
std::unique_ptr<Task> task_of(const std::string& file, const ModelFileInfo& info,
                              const std::filesystem::path& data);

/// Largest orthogonality error of a model's transitions as trained.
double orthogonality_error_of(SequenceModel<float>& model);

}  // namespace orthornn::program
