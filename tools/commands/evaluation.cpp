#include "commands/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "commands/any_model.hpp"
#include "commands/clip_pictures.hpp"
#include "commands/machine.hpp"
#include "commands/program.hpp"
#include "commands/progress.hpp"
#include "commands/task_data.hpp"
#include "commands/training_results.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/tasks/data_task.hpp"
#include "train/frames_ahead.hpp"

namespace orthornn::program {

namespace {

/// Throws Error where a batch of `longer`, estimated by a sequence of the task, takes more memory than there
/// is for the CPU.
void check_memory(Model<float>& model, const Task& task, const Task& longer) {
  if (model.device().is_cuda()) return;
  Batch batch;
  task.with_length(task.length(), 1)->evaluation_batch(HeldOut::test, 0, batch);
  model.loss(batch);
  const double of_step = static_cast<double>(model.saved_bytes()) / static_cast<double>(task.length());
  const double needed =
      of_step * static_cast<double>(longer.length()) * static_cast<double>(longer.batch_size());
  check_free_memory(fmt::format("--lengths {}: such a sequence takes with this model", longer.length()),
                    needed, "choose shorter ones");
}

/// The task with test sequences of that length. Throws UsageError where there are none, or where the model
/// has no positions for them.
std::unique_ptr<Task> with_length(const Task& task, const std::vector<LayerOptions>& layers, Index length,
                                  Index batch) {
  // Long sequences in small batches, so that a batch has no more steps than one of 2048 sequences of 128.
  constexpr Index most_steps = Index{1} << 18;
  std::unique_ptr<Task> longer =
      as_usage([&] { return task.with_length(length, std::clamp<Index>(most_steps / length, 1, batch)); });
  if (longer == nullptr)
    throw UsageError(fmt::format(
        "--lengths was given, and the lengths of sequences of the task {} cannot be chosen", task.name()));
  if (const std::optional<Index> positions = fewest_positions(layers); positions && *positions < length)
    throw UsageError(fmt::format("--lengths {}: the model has positions for {} steps; choose shorter lengths",
                                 length, *positions));
  return longer;
}

/// Throws UsageError where the clips have no so many frames, or where the model cannot go on from them.
void check_frames_ahead(const Model<float>& model, const std::string& file, const Task& task, Index ahead) {
  check_ahead(file, &task, task.name());
  const auto* frames = dynamic_cast<const SequenceModel<float>*>(&model);
  if (frames == nullptr) throw UsageError("--ahead is for models of one sequence");
  check_reads_forward("--ahead", file, *frames);
  if (ahead <= task.length()) return;
  throw UsageError(
      fmt::format("--ahead {}: clips have {} frames, of which one is read at least; expected {} at "
                  "most",
                  ahead, task.length() + 1, task.length()));
}

std::vector<std::vector<MetricValue>> evaluate_ahead(Model<float>& model, const Task& task, Index ahead) {
  auto& frames = dynamic_cast<SequenceModel<float>&>(model);
  Progress progress("evaluating frames ahead", task.evaluation_batches(HeldOut::test), "batches");
  return metrics_ahead(frames, task, ahead, [&] { progress.advance(); });
}

Json json_of(const Evaluation& evaluation, double baseline, Loss loss) {
  Json json = {{loss == Loss::softmax_cross_entropy ? "cross_entropy" : name_of(loss), evaluation.loss},
               {"baseline", baseline}};
  add_metrics(json, evaluation);
  return json;
}

}  // namespace

ModelEvaluation evaluate_file(const EvaluationSource& source, const Execution& execution,
                              const std::function<void(const std::string&)>& check_task) {
  ModelFileInfo info;
  const auto model = load_any_model(source.model, execution, &info);
  if (info.task_config.empty()) throw FileError(fmt::format("{} was saved without a task", source.model));
  if (check_task) check_task(info.task_name);
  const DataPlace data = data_place(source.files, source.model, task_options_of(info.task_config));
  TaskSource of_task{
      .batch = info.batch, .seed = info.seed, .input_order = info.permutation, .parts = info.parts};
  data.files.add_to(of_task);
  const std::unique_ptr<Task> task = make_task(info.task_config, of_task);
  data.with_reason([&] {
    if (source.ahead > 0) check_frames_ahead(*model, source.model, *task, source.ahead);
    const Progress reading("reading the data");
    task->load();
  });
  const auto* sequence = std::get_if<ModelOptions>(&info.model);
  ModelEvaluation result{.task = task->name(),
                         .steps = info.steps.value_or(0),
                         .loss = sequence == nullptr ? Loss::softmax_cross_entropy : sequence->loss};
  result.length = task->length();
  result.batch = info.batch;
  result.cells = recurrences(*model, result.length, result.batch);
  std::vector<std::unique_ptr<Task>> longer;  // before an evaluation that may take minutes
  for (const Index length : source.lengths)
    longer.push_back(with_length(*task, layers_of(info.model), length, info.batch));
  const TestEvaluation tested = evaluate_test_data(*model, *task);
  result.evaluation = tested.of_targets;
  result.baseline = task->baseline_loss();
  result.orthogonality_error = model->orthogonality_error();
  result.solved = task->solved(result.evaluation);
  for (const std::unique_ptr<Task>& of_length : longer) {
    check_memory(*model, *task, *of_length);
    Progress progress(fmt::format("evaluating length {}", of_length->length()),
                      of_length->evaluation_batches(HeldOut::test), "batches");
    const Evaluation evaluation = evaluate(*model, *of_length, HeldOut::test,
                                           [&](const Batch&, const BatchLoss&) { progress.advance(); });
    result.lengths.push_back({of_length->length(), evaluation, of_length->baseline_loss()});
  }
  if (source.ahead > 0) result.ahead = evaluate_ahead(*model, *task, source.ahead);
  result.translations = translation_metrics(*model, *task, tested, source.search, source.sample);
  return result;
}

Json json_of(const ModelEvaluation& result, const EvaluationSource& source, const Execution& execution) {
  Json json = {{"model", source.model}, {"task", result.task}, {"steps", result.steps}};
  json.update(json_of(result.evaluation, result.baseline, result.loss));
  if (result.translations) json.update(json_of(*result.translations, source.search));
  json["solved"] = result.solved;
  if (result.orthogonality_error) json["orthogonality_error"] = *result.orthogonality_error;
  for (const EvaluationAtLength& at : result.lengths) {
    Json& row = json["lengths"].emplace_back(Json{{"length", at.length}});
    row.update(json_of(at.evaluation, at.baseline, result.loss));
  }
  for (std::size_t m = 0; m < result.ahead.size(); ++m) {
    Json& row = json["ahead"].emplace_back(Json{{"frame", m + 1}});
    add_metrics(row, {.metrics = result.ahead[m]});
  }
  json["cells"] = result.cells;
  json.update(machine_fields(execution));
  return json;
}

}  // namespace orthornn::program
