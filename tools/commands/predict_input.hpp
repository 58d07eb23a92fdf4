#pragma once

#include <string>

#include "train/predictions.hpp"

namespace orthornn::program {

/// Reads a file that `orthornn predict` is given, as what the model takes: HDF5 with /x [T, B, ..] and
/// perhaps /lengths, or a form of docs/own-data.md. `order` is the model's own order of the steps; empty: as
/// they are. `task`, unless null, is what the model was trained on: it knows the columns of CSV files, and
/// brings features into the form that the model reads. Throws FileError for a file with something else.
PredictInput read_predict_input(const std::string& file, const ModelOptions& model,
                                const Tensor<std::int32_t>& order, const Task* task = nullptr);

}  // namespace orthornn::program
