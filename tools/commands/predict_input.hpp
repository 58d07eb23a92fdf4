#pragma once

#include <cstdint>
#include <string>

#include "orthornn/core/batch.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn::program {

/// Reads /x and /lengths of the HDF5 file that `orthornn predict` is given, as what the model takes; throws
/// FileError when they are something else, and where the file has anything else. `order` is the model's own
/// order of the steps; empty: as they are. `task`, unless null, is what the model was trained on: it brings
/// features into the form that the model reads.
Batch read_predict_input(const std::string& file, const ModelOptions& model,
                         const Tensor<std::int32_t>& order, const Task* task = nullptr);

}  // namespace orthornn::program
