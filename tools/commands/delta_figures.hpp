#pragma once
// What the DeltaProduct layers of a model do along one sequence of its task.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orthornn/nn/delta_observation.hpp"
#include "orthornn/tasks/task.hpp"
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

/// The first test sequence of the task that the model was trained on, with `length` steps, or those of the
/// task for 0, or fewer: as many as take a few seconds. Of a task whose lengths cannot be chosen, with its
/// own. The model is on the CPU, and info is of its file. Throws UsageError for a `length` that cannot be,
/// and another Error, with its reason, where there is no such sequence or it takes too long.
DeltaFigures delta_figures(SequenceModel<float>& model, const ModelFileInfo& info, Index length);

nlohmann::ordered_json json_of(const DeltaFigures& figures);
/// As a table.
void print_delta_figures(const DeltaFigures& figures);

}  // namespace orthornn::program
