#pragma once
// What the DeltaProduct layers of a model do along one sequence of its task.

#include <vector>

#include "commands/task_data.hpp"
#include "core/checked_json.hpp"
#include "orthornn/nn/delta_observation.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn::program {

struct DeltaFigures {
  /// Steps of the sequence.
  Index steps = 0;
  /// Steps, 0 for the first, after which effective ranks were computed; none where that would take long.
  std::vector<Index> rank_steps = {};
  /// Empty for a model without DeltaProduct layers.
  std::vector<DeltaObservation> layers = {};
};

bool has_delta_products(const AnyModelOptions& options);

/// Steps that a model is followed over, at most: they take a few seconds, and half a gigabyte.
Index most_delta_steps(const SequenceModel<float>& model);

/// Follows the model, which is on the CPU and of the file of `info`, along the first test sequence of the
/// task that it was trained on. The sequence has `length` steps; for 0 those of the task, or
/// `most_delta_steps` if they are fewer. `data` is where the task's data are. Throws UsageError for a
/// `length` that cannot be, and another Error, with its reason, where there is no such sequence.
DeltaFigures delta_figures(SequenceModel<float>& model, const ModelFileInfo& info, Index length,
                           const DataFiles& data);

Json json_of(const DeltaFigures& figures);
/// As a table.
void print_delta_figures(const DeltaFigures& figures);

}  // namespace orthornn::program
