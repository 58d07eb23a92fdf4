#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "orthornn/core/tensor.hpp"
#include "orthornn/tasks/sequences_task.hpp"

namespace orthornn {

/// Sequences as a file has them, one after the other.
struct SequenceFile {
  Tensor<float> features = {};  ///< [S, K], NaN where a number is missing; empty where steps are symbols.
  Tensor<std::int32_t> symbols = {};       ///< [S]; empty where steps are vectors.
  std::vector<std::int32_t> lengths = {};  ///< Steps of each sequence, [N].
  bool every_step = false;                 ///< Whether each step has a target.
  Tensor<std::int32_t> classes = {};       ///< [N] or [S]; empty where targets are numbers.
  Tensor<float> values = {};               ///< [N, C] or [S, C]; empty where targets are classes.
  /// Names of the classes; where a model was trained before, those of that model.
  std::vector<std::string> class_names = {};
  std::vector<std::int32_t> groups = {};  ///< [N]; empty where each sequence is a group.
  std::string checksum = {};              ///< Sizes and CRC-32 of what was read.
};

/// Reads a file by the end of its name. `known_classes` are the class names of a model that was trained
/// before, or empty. Throws FileError, with the place, for what is no such file.
SequenceFile read_sequence_file(const SequencesOptions& options,
                                const std::vector<std::string>& known_classes);

/// The form with one column for each name (csv_sequences.cpp).
SequenceFile read_csv(const SequencesOptions& options, const std::vector<std::string>& known_classes);
/// The forms with named arrays, HDF5 and npz (array_sequences.cpp).
SequenceFile read_arrays(const SequencesOptions& options);

/// Numbers of class names: those known, or else all that there are, sorted, by their value if they are whole
/// numbers. Throws ValueError, with the place of the first (`place(i)`), for a name that is not known.
std::vector<std::int32_t> class_numbers(const std::vector<std::string>& names,
                                        const std::vector<std::string>& known,
                                        std::vector<std::string>& class_names);

}  // namespace orthornn
