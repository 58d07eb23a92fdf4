#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands/any_model.hpp"
#include "commands/machine.hpp"
#include "commands/output_file.hpp"
#include "commands/standard_streams.hpp"
#include "commands/timing.hpp"
#include "commands/train_settings.hpp"
#include "core/checked_json.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn::program {
namespace {

using Json = nlohmann::ordered_json;

struct BenchTrainSettings {
  TrainSettings training;
  int samples = 20;
  std::string json;
  bool overwrite = false;
};

int bench_train(CLI::App& command, BenchTrainSettings& settings) {
  TrainSettings& training = settings.training;
  const std::unique_ptr<Task> task = as_usage([&] { return training.complete(command); });
  const Execution execution = training.machine.apply(training.source.batch, task->length());
  if (!settings.json.empty()) {
    check_output(settings.json, OutputKind::results, settings.overwrite);
    go_on_without_output();
  }
  task->load();
  const auto owned_model =
      as_usage([&] { return make_model(execution, training.model_options(*task), training.source.seed); });
  Model<float>& model = *owned_model;
  Trainer trainer(model, *task, training.trainer);
  const Json cells = recurrences(model, task->length(), training.source.batch);
  // A GPU is waited for once in so many steps, as a training does.
  const int steps = execution.device.is_cuda() ? 10 : 1;
  const auto step = [&] {
    for (int i = 0; i < steps; ++i) trainer.step();
    trainer.synchronize();
  };
  for (int i = 0; i < warm_up_runs(execution.device); ++i) step();
  std::vector<double> samples;
  for (int i = 0; i < settings.samples; ++i) samples.push_back(milliseconds(execution.device, step) / steps);

  const double time = median(samples);
  const double rate = static_cast<double>(training.source.batch) * 1e3 / time;
  fmt::print("{} with {}: {} parameters, batch {}, {} steps a sequence, {}\n", task->name(),
             training.cell_text(), model.parameters().count(), training.source.batch, task->length(),
             training.optimizer.name);
  print_recurrences(cells, execution, task->length(), training.source.batch);
  const std::optional<double> error = model.orthogonality_error();
  if (error) fmt::print("|I - A'A| {:.1e} for Q as it is applied\n", *error);
  fmt::print("a training step: {:.3f} ms, {:.0f} sequences a second; median of {} samples of {} step{}\n",
             time, rate, settings.samples, steps, steps == 1 ? "" : "s");
  if (settings.json.empty()) return success;
  Json json = {{"benchmark", "train"},
               {"task", Json::parse(task->config())},
               {"cells", cells},
               {"parameters", model.parameters().count()},
               {"batch", training.source.batch},
               {"length", task->length()},
               {"optimizer", training.optimizer.name}};
  json.update(machine_fields(execution));
  if (error) json["orthogonality_error"] = *error;
  json["step_ms"] = time;
  json["sequences_per_second"] = rate;
  json["steps_per_sample"] = steps;
  json["step_samples_ms"] = samples;
  write_file_atomically(settings.json, json_text(json) + "\n", SymbolicLinks::replaced);
  fmt::print("every sample: {}\n", settings.json);
  return success;
}

}  // namespace

void add_bench_train(CLI::App& bench, Command& chosen) {
  CLI::App* command =
      bench.add_subcommand("train", "A whole training step of a task, as train would take it");
  const auto settings = std::make_shared<BenchTrainSettings>();
  settings->training.add_workload_to(*command);
  command->add_option("--samples", settings->samples, "Timed samples, of which the median counts")
      ->transform(whole_number_in(1, 100000));
  settings->training.machine.add_to(*command);
  command->add_option("--json", settings->json, "File for the result with every sample");
  add_overwrite(*command, settings->overwrite);
  command->callback([&chosen, command, settings] {
    chosen = [command, settings] { return bench_train(*command, *settings); };
  });
}

}  // namespace orthornn::program
