#include <fmt/format.h>

#include <list>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands/field_options.hpp"
#include "commands/machine.hpp"
#include "commands/program.hpp"
#include "commands/translation_metrics.hpp"

namespace orthornn::program {
namespace {

struct EvaluateSettings {
  std::string model;
  std::string data;
  bool json = false;
  bool verbose = false;
  BeamSearchOptions search;
  Index sample = 5;
  MachineOptions machine;
  /// Of the model file.
  std::string task;
  std::list<OwnedOption> owned;
};

int run_evaluation(EvaluateSettings& settings) {
  const Execution execution = settings.machine.apply();
  ModelFileInfo info;
  const auto model = load_any_model(settings.model, execution, &info);
  if (info.task_config.empty()) throw FileError(fmt::format("{} was saved without a task", settings.model));
  settings.task = info.task_name;
  for (const OwnedOption& own : settings.owned) {
    if (own.option->count() > 0) own.check();
  }
  const std::unique_ptr<Task> task =
      make_task(info.task_config, {.batch = info.batch,
                                   .seed = info.seed,
                                   .data = settings.data.empty() ? usual_data(info.task_name) : settings.data,
                                   .input_order = info.permutation,
                                   .parts = info.parts});
  task->load();
  const nlohmann::ordered_json cells = recurrences(*model, task->length(), info.batch);
  const TestEvaluation tested = evaluate_test_data(*model, *task);
  const Evaluation& evaluation = tested.of_targets;
  const double baseline = task->baseline_loss();
  const std::optional<double> error = model->orthogonality_error();
  const bool solved = task->solved(evaluation);
  std::optional<TranslationMetrics> translations;
  if (const auto* pairs = dynamic_cast<const TranslationTask*>(task.get())) {
    translations = translation_metrics(dynamic_cast<EncoderDecoder<float>&>(*model), *pairs, tested,
                                       settings.search, settings.sample);
  }
  const auto* sequence = std::get_if<ModelOptions>(&info.model);
  const bool cross_entropy = sequence == nullptr || sequence->loss == Loss::softmax_cross_entropy;

  if (settings.json) {
    nlohmann::ordered_json json = {{"model", settings.model},
                                   {"task", task->name()},
                                   {"steps", info.steps.value_or(0)},
                                   {cross_entropy ? "cross_entropy" : "mean_squared_error", evaluation.loss},
                                   {"baseline", baseline}};
    if (evaluation.accuracy) json["accuracy"] = *evaluation.accuracy;
    if (translations) json.update(json_of(*translations, settings.search));
    json["solved"] = solved;
    if (error) json["orthogonality_error"] = *error;
    json["cells"] = cells;
    json.update(machine_fields(execution));
    fmt::print("{}\n", json.dump(2, ' ', /*ensure_ascii=*/true));
    return success;
  }
  if (settings.verbose) print_recurrences(cells, execution, task->length(), info.batch);
  fmt::print("{} on test data of the task {}, after {} training steps:\n", printable(settings.model),
             task->name(), info.steps.value_or(0));
  fmt::print("  {:20} {:.6g}; a guesser has {:.6g}\n", cross_entropy ? "cross-entropy" : "mean squared error",
             evaluation.loss, baseline);
  if (evaluation.accuracy) fmt::print("  {:20} {:.2f} %\n", "right", 100 * *evaluation.accuracy);
  if (translations) print_metrics(*translations, settings.search);
  if (error) {
    fmt::print("  {:20} {:.1e}, the largest entry of |I - A'A| for Q as {} applies it\n",
               "orthogonality error", *error, name_of(execution.precision));
  }
  fmt::print("The task counts as {}.\n", solved ? "solved" : "not solved");
  return success;
}

}  // namespace

void add_evaluate(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("eval", "Metrics of a model on test data");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<EvaluateSettings>();
  command->add_option("model", settings->model, "Model file, model.h5 of a run")->required();
  const auto belongs = [&](CLI::Option* option, std::vector<std::string> tasks) {
    const EvaluateSettings* own = settings.get();
    add_owned(
        settings->owned, option, "the task", [own] { return own->task; }, std::move(tasks));
  };
  belongs(
      command
          ->add_option("--data", settings->data, "where the data are; left out: data/mnist or data/tatoeba")
          ->default_str(""),
      {MnistOptions::name, TranslationOptions::name});
  command->add_flag("--json", settings->json, "One JSON object instead of a text");
  command->add_flag("--verbose", settings->verbose, "Print how the recurrence of each cell is computed");
  add_fields(*command, "Translation", settings->search);
  add_value(*command, "--sample", settings->sample, "Sentences that are shown with their translations",
            domain::not_negative)
      ->group("Translation");
  for (const char* flag : {"--beam", "--length-penalty", "--sample"})
    belongs(command->get_option(flag), {TranslationOptions::name});
  settings->machine.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return run_evaluation(*settings); }; });
}

}  // namespace orthornn::program
