#pragma once
// What a model file is worth on the test data of its task.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commands/task_data.hpp"
#include "commands/translation.hpp"
#include "core/checked_json.hpp"

namespace orthornn::program {

struct EvaluationSource {
  std::string model;
  /// Where the data of the task are; what is left out: as `data_place` says.
  DataFiles files;
  /// Of translations, of which `sample` are kept with their sentences.
  BeamSearchOptions search;
  Index sample = 5;
  /// Lengths of sequences that the model is evaluated on too, for tasks that have a length.
  std::vector<Index> lengths = {};
  /// Frames that a model of videos predicts from its own predictions; 0: none.
  Index ahead = 0;
};

/// Of test data with sequences of one length.
struct EvaluationAtLength {
  Index length = 0;
  Evaluation evaluation = {};
  double baseline = 0;
};

struct ModelEvaluation {
  std::string task;
  std::int64_t steps = 0;
  /// Whose mean the loss is.
  Loss loss = Loss::softmax_cross_entropy;
  Evaluation evaluation = {};
  double baseline = 0;
  bool solved = false;
  std::optional<double> orthogonality_error = {};
  std::optional<TranslationMetrics> translations = {};
  std::vector<EvaluationAtLength> lengths = {};
  /// Metrics of each frame ahead.
  std::vector<std::vector<MetricValue>> ahead = {};
  /// Of `recurrences`, for sequences of this length and batches of this size.
  Json cells = {};
  Index length = 0;
  Index batch = 0;
};

/// `check_task` gets the name of the model's task before anything is read for it, and may throw. Throws
/// FileError for a model without its task and for data that are missing or others, and UsageError for lengths
/// of a task that has none.
ModelEvaluation evaluate_file(const EvaluationSource& source, const Execution& execution,
                              const std::function<void(const std::string&)>& check_task = {});

Json json_of(const ModelEvaluation& result, const EvaluationSource& source, const Execution& execution);

}  // namespace orthornn::program
