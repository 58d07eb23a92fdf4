#include "commands/evaluation.hpp"

#include <fmt/format.h>

#include "commands/machine.hpp"
#include "commands/program.hpp"

namespace orthornn::program {

using Json = nlohmann::ordered_json;

ModelEvaluation evaluate_file(const EvaluationSource& source, const Execution& execution,
                              const std::function<void(const std::string&)>& check_task) {
  ModelFileInfo info;
  const auto model = load_any_model(source.model, execution, &info);
  if (info.task_config.empty()) throw FileError(fmt::format("{} was saved without a task", source.model));
  if (check_task) check_task(info.task_name);
  const std::unique_ptr<Task> task =
      make_task(info.task_config, {.batch = info.batch,
                                   .seed = info.seed,
                                   .data = source.data.empty() ? usual_data(info.task_name) : source.data,
                                   .input_order = info.permutation,
                                   .parts = info.parts});
  task->load();
  const auto* sequence = std::get_if<ModelOptions>(&info.model);
  ModelEvaluation result{
      .task = task->name(),
      .steps = info.steps.value_or(0),
      .cross_entropy = sequence == nullptr || sequence->loss == Loss::softmax_cross_entropy};
  result.length = task->length();
  result.batch = info.batch;
  result.cells = recurrences(*model, result.length, result.batch);
  const TestEvaluation tested = evaluate_test_data(*model, *task);
  result.evaluation = tested.of_targets;
  result.baseline = task->baseline_loss();
  result.orthogonality_error = model->orthogonality_error();
  result.solved = task->solved(result.evaluation);
  if (const auto* pairs = dynamic_cast<const TranslationTask*>(task.get())) {
    result.translations = translation_metrics(dynamic_cast<EncoderDecoder<float>&>(*model), *pairs, tested,
                                              source.search, source.sample);
  }
  return result;
}

Json json_of(const ModelEvaluation& result, const EvaluationSource& source, const Execution& execution) {
  Json json = {{"model", source.model},
               {"task", result.task},
               {"steps", result.steps},
               {result.cross_entropy ? "cross_entropy" : "mean_squared_error", result.evaluation.loss},
               {"baseline", result.baseline}};
  if (result.evaluation.accuracy) json["accuracy"] = *result.evaluation.accuracy;
  if (result.translations) json.update(json_of(*result.translations, source.search));
  json["solved"] = result.solved;
  if (result.orthogonality_error) json["orthogonality_error"] = *result.orthogonality_error;
  json["cells"] = result.cells;
  json.update(machine_fields(execution));
  return json;
}

}  // namespace orthornn::program
