#pragma once
// What a model makes of the sequences of a caller: inputs as the data of its training had them, outputs in
// the units of its targets.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// Sequences of one file or array, one after the other, in the form that the model reads. S is the number of
/// all steps, with those beyond the ends of sequences of an array with its steps first.
struct PredictInput {
  Tensor<float> features = {};             ///< [S, K]; empty where the model reads symbols.
  Tensor<std::int32_t> symbols = {};       ///< [S]; empty where the model reads vectors.
  std::vector<std::int32_t> lengths = {};  ///< Steps of each sequence, [N].
  std::vector<Index> starts = {};          ///< First step of each sequence, [N]; `bring_to_model` sets it.
  std::vector<std::string> names = {};     ///< [N]; empty where the sequences have no names.
  /// T of an array [T, N, ..], which has its steps first; no value for other forms.
  std::optional<Index> steps_first = {};
  std::string file = {};   ///< Name of the file in messages; empty for an array in memory.
  std::string array = {};  ///< Name of an array with its steps first, in messages.

  Index count() const { return std::ssize(lengths); }
  /// Steps of the longest of some sequences, at least 1.
  Index longest(Index first, Index sequences) const;
  /// The sequences from `first` on as a batch of T = `length` steps, with zeros beyond their ends.
  Batch batch(Index first, Index sequences, Index length) const;
};

/// Rows of x [T, N, ..], one sequence after the other, [N T, ..].
template <class T>
Tensor<T> one_after_the_other(TensorView<const T> x);

/// Brings inputs into the form that a model reads. `order` is the model's own order of the steps; empty: as
/// they are. `task`, unless null, is what the model was trained on: it normalizes features. Features
/// beyond the ends of sequences are set to 0 first. Throws ValueError for what the model does not read.
void bring_to_model(PredictInput& input, const ModelOptions& model, ConstTensorView<std::int32_t> order,
                    const Task* task);

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
  Tensor<float> ahead = {};            ///< Outputs of further steps, [N, M, C], if wanted.
  std::vector<NamedStates> states =
      {};  ///< After every step, [rows, ..], zeros where there is none; if wanted.
};

/// Some sequences of one input, which are computed at once.
struct BatchPart {
  Index first = 0, sequences = 0, steps = 0;
};
/// The first of the parts in which an input is computed.
BatchPart first_part(const StepLayout& layout, const PredictInput& input);

/// What is computed beside outputs and last states.
struct PredictedToo {
  bool states = false;  ///< States after every step.
  Index ahead = 0;      ///< Steps after the last one, as `outputs_ahead`.
};

/// Computes outputs and states in batches. `task`, unless null, brings the outputs into the units of its
/// targets. `after_batch`, if any, is called with the number of sequences of each batch. Throws as the model
/// for an input that it does not take; where the input is a file, a FileError with its name.
Predictions predictions_of(SequenceModel<float>& model, const std::vector<PredictInput>& inputs,
                           const Task* task, const PredictedToo& too,
                           const std::function<void(Index sequences)>& after_batch = {});

/// What a model reads at a step: so many numbers, or no value for a symbol.
std::optional<Index> numbers_of(const ModelOptions& model);

}  // namespace orthornn
