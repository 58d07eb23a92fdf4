#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/core/batch.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn::program {

/// Sequences of one file, one after the other, in the form that the model reads. S is the number of all
/// steps, with those beyond the ends of sequences of an input /x.
struct PredictInput {
  Tensor<float> features = {};             ///< [S, K]; empty where the model reads symbols.
  Tensor<std::int32_t> symbols = {};       ///< [S]; empty where the model reads vectors.
  std::vector<std::int32_t> lengths = {};  ///< Steps of each sequence, [N].
  std::vector<Index> starts = {};          ///< First step of each sequence, [N].
  std::vector<std::string> names = {};     ///< [N]; empty where the file does not name its sequences.
  /// T of an input /x [T, B, ..], which has its steps first; no value for other forms.
  std::optional<Index> steps_first = {};

  Index count() const { return std::ssize(lengths); }
  /// Steps of the longest of some sequences, at least 1.
  Index longest(Index first, Index sequences) const;
  /// The sequences from `first` on as a batch of T = `length` steps, with zeros beyond their ends.
  Batch batch(Index first, Index sequences, Index length) const;
};

/// Reads a file that `orthornn predict` is given, as what the model takes: HDF5 with /x [T, B, ..] and
/// perhaps /lengths, or a form of docs/own-data.md. `order` is the model's own order of the steps; empty: as
/// they are. `task`, unless null, is what the model was trained on: it knows the columns of CSV files, and
/// brings features into the form that the model reads. Throws FileError for a file with something else.
PredictInput read_predict_input(const std::string& file, const ModelOptions& model,
                                const Tensor<std::int32_t>& order, const Task* task = nullptr);

}  // namespace orthornn::program
