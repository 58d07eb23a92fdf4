#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "commands/machine.hpp"
#include "commands/output_file.hpp"
#include "commands/predict_input.hpp"
#include "commands/program.hpp"

namespace orthornn::program {
namespace {

struct PredictSettings {
  std::string model;
  std::string input;
  std::string output;
  bool overwrite = false;
  bool verbose = false;
  MachineOptions machine;
};

/// The task that a model was trained on, from its file alone; null where there is none that is known.
std::unique_ptr<Task> task_of(const ModelFileInfo& info) {
  const std::vector<std::string> known = task_names();
  if (std::ranges::find(known, info.task_name) == known.end()) return nullptr;
  return make_task(info.task_config, {.batch = std::max<Index>(info.batch, 1),
                                      .seed = info.seed,
                                      .input_order = info.permutation,
                                      .parts = info.parts});
}

int predict(const PredictSettings& settings) {
  const Execution execution = settings.machine.apply();
  for (const std::string& read : {settings.model, settings.input}) {
    std::error_code missing;  // no file yet: nothing to overwrite
    if (std::filesystem::equivalent(read, settings.output, missing)) {
      throw UsageError(
          fmt::format("--output '{}' is a file that is read; choose another name", settings.output));
    }
  }
  check_output(settings.output, OutputKind::predictions, settings.overwrite);
  ModelFileInfo info;
  const auto model = load_model(settings.model, execution, &info);
  const std::unique_ptr<Task> task = task_of(info);
  const Batch batch = read_predict_input(settings.input, model->options(), info.permutation, task.get())
                          .copy(model->device());
  const TensorView<const std::int32_t> symbols = batch.integers(batch_names::symbols);
  const Shape steps = symbols.empty() ? batch.reals(batch_names::features).shape() : symbols.shape();
  // Throws now what would else be said of the input.
  const nlohmann::ordered_json cells = recurrences(*model, steps[0], steps[1]);
  if (settings.verbose) print_recurrences(cells, execution, steps[0], steps[1]);
  TensorView<const float> logits;
  try {
    logits = model->forward(batch);
    synchronize(execution.device);  // a GPU has looked at the input only then
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", settings.input, error.what()));
  }
  ModelState<float> state;
  model->final_state(state);

  Hdf5Writer writer;
  writer.attribute("/", "format", predictions_format);
  std::string written;
  Tensor<float> outputs;
  outputs.reserve(logits.shape());
  copy<float>(logits, outputs.view());
  if (task) task->restore_outputs(outputs.view());
  const auto write = [&](const std::string& name, const TensorView<const float> values) {
    writer.dataset(name, values);
    written += fmt::format("{}/{} {}", written.empty() ? "" : ", ", name, to_string(values.shape()));
  };
  write("logits", outputs);
  auto next = state.begin();
  for (Index cell = 0; cell < model->cell_count(); ++cell) {
    for (Index i = 0; i < model->cell(cell).state_count(); ++i, ++next) {
      const std::string name = fmt::format("{}_last", model->cell(cell).state_name(i));
      if (model->cell_count() > 1) write(fmt::format("{}{}", name, cell), *next);
      if (cell + 1 == model->cell_count()) write(name, *next);
    }
  }
  writer.commit(settings.output, SymbolicLinks::replaced);
  fmt::print("{}: {}\n", printable(settings.output), written);
  return success;
}

}  // namespace

void add_predict(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("predict", "Outputs of a model for inputs of your own");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<PredictSettings>();
  command->add_option("model", settings->model, "Model file")->required();
  command
      ->add_option("input", settings->input,
                   "HDF5 file with /x, [T, B, K] floats or [T, B] integer symbols, and perhaps /lengths [B]")
      ->required();
  command
      ->add_option("-o,--output", settings->output,
                   "HDF5 file to write: /logits, /h_last, and /c_last of an LSTM")
      ->required();
  add_overwrite(*command, settings->overwrite);
  command->add_flag("--verbose", settings->verbose, "Print how the recurrence of each cell is computed");
  settings->machine.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return predict(*settings); }; });
}

}  // namespace orthornn::program
