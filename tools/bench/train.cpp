// bench train: a training step of a task, as `train` takes it.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <vector>

#include "bench/benchmark.hpp"
#include "bench/measured.hpp"
#include "commands/any_model.hpp"
#include "commands/machine.hpp"
#include "commands/train_settings.hpp"
#include "core/quantity.hpp"
#include "support/statistics.hpp"

namespace orthornn::program {
namespace {

struct TrainBenchmark {
  static constexpr const char* name = "train";
  static constexpr const char* help = "A whole training step of a task, as train would take it";
  CLI::App* command = nullptr;
  TrainSettings training;
  SamplingOptions sampling{.samples = 20};

  void add_to(CLI::App& to) {
    command = &to;
    training.add_workload_to(to);
    training.machine.add_to(to);
    sampling.add_to(to);
  }
  int run();
};

int TrainBenchmark::run() {
  const std::unique_ptr<Task> task = as_usage([&] { return training.complete(*command); });
  const Index batch = training.source.batch, length = task->length();
  const Execution execution = training.machine.apply(batch, length);
  sampling.complete(execution.device);
  task->load();
  const std::unique_ptr<Model<float>> model =
      as_usage([&] { return make_model(execution, training.model_options(*task), training.source.seed); });
  Trainer trainer(*model, *task, training.trainer);
  const Json cells = recurrences(*model, length, batch);
  // A GPU is waited for once in so many steps, as a training does.
  const int steps = execution.device.is_cuda() ? 10 : 1;
  const auto step = [&] {
    for (int i = 0; i < steps; ++i) trainer.step();
    trainer.synchronize();
  };
  for (int i = 0; i < warm_up_runs(execution.device); ++i) step();
  std::vector<double> samples;
  for (Index i = 0; i < sampling.samples; ++i)
    samples.push_back(milliseconds(execution.device, step) / steps);

  const double time = median(samples), rate = static_cast<double>(batch) * 1e3 / time;
  fmt::print("{} with {}: {} parameters, batch {}, {} steps a sequence, {}\n", task->name(),
             training.cell_text(), model->parameters().count(), batch, length, training.optimizer.name);
  print_recurrences(cells, execution, length, batch);
  const std::optional<double> error = model->orthogonality_error();
  if (error) fmt::print("|I - A'A| {:.1e} for Q as it is applied\n", *error);
  fmt::print("a training step: {:.3f} ms, {:.0f} sequences a second; median of {} of {}\n", time, rate,
             quantity(sampling.samples, "sample"), quantity(steps, "step"));
  Json json = {{"benchmark", name},
               {"task", Json::parse(task->config())},
               {"cells", cells},
               {"parameters", model->parameters().count()},
               {"batch", batch},
               {"length", length},
               {"optimizer", training.optimizer.name}};
  json.update(machine_fields(execution));
  if (error) json["orthogonality_error"] = *error;
  json["step_ms"] = time;
  json["sequences_per_second"] = rate;
  json["steps_per_sample"] = steps;
  json["step_samples_ms"] = samples;
  sampling.results.write(json);
  return success;
}

}  // namespace

Benchmark train_benchmark() { return benchmark_of<TrainBenchmark>(); }

}  // namespace orthornn::program
