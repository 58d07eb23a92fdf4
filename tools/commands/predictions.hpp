#pragma once
// What a model makes of sequences, in the order in which they are given.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/predict_input.hpp"
#include "orthornn/nn/sequence_model.hpp"

namespace orthornn::program {

/// Where the steps of all sequences are in an array.
struct StepLayout {
  std::vector<std::int32_t> lengths = {};  ///< Steps of each sequence, [N].
  std::vector<Index> starts = {};          ///< First row of each sequence, [N].
  Index all = 0;                           ///< Steps of all sequences.
  /// T of arrays [T, N, ..]; no value where sequences follow one another.
  std::optional<Index> steps_first = {};

  /// The layout of the sequences of these inputs. That of a single input /x has its steps first.
  explicit StepLayout(const std::vector<PredictInput>& inputs);

  Index count() const { return std::ssize(lengths); }
  /// Whether sequences differ in their lengths.
  bool is_ragged() const;
  /// Rows of an array of steps.
  Index rows() const { return steps_first ? *steps_first * count() : all; }
  /// The row of step t of sequence i.
  Index row(Index i, Index t) const {
    return steps_first ? t * count() + i : starts[static_cast<std::size_t>(i)] + t;
  }
  /// [T, N], or [N, T] or [S] where sequences follow one another.
  Shape shape() const;
};

/// The states that a layer carries, by the name of one of them.
struct NamedStates {
  std::string name;
  Index cell = 0;             ///< Number of its layer in the model.
  Tensor<float> values = {};  ///< One for each sequence or each row of a layout.
};

/// What a model computed.
struct Predictions {
  StepLayout layout;
  Index cells = 1;  ///< Layers of the model.
  bool every_step = false;
  Tensor<float> outputs = {};          ///< [rows, C] with `every_step`, else [N, C].
  std::vector<NamedStates> last = {};  ///< After the last step of each sequence, [N, ..].
  std::vector<NamedStates> states =
      {};  ///< After every step, [rows, ..], zeros where there is none; if wanted.
};

/// Some sequences of one input, which are computed at once.
struct BatchPart {
  Index first = 0, sequences = 0, steps = 0;
};
/// The first of the parts in which an input is computed.
BatchPart first_part(const StepLayout& layout, const PredictInput& input);

/// Computes outputs and states in batches, and says how far it is. `files` are the names of the inputs.
/// Throws FileError, with the name, for an input that the model does not take.
Predictions predictions_of(SequenceModel<float>& model, const std::vector<PredictInput>& inputs,
                           const std::vector<std::string>& files, bool with_states);

}  // namespace orthornn::program
