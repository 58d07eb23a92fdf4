#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "commands/machine.hpp"
#include "commands/program.hpp"

namespace orthornn::program {
namespace {

struct PredictSettings {
  std::string model;
  std::string input;
  std::string output;
  bool verbose = false;
  MachineOptions machine;
};

/// Reads /x and /lengths as what the model takes; throws FileError when they are something else.
Batch read_input(const std::string& file, const ModelOptions& model, const Tensor<std::int32_t>& order) {
  const Hdf5Reader reader(file);
  if (!reader.has("x")) throw FileError(fmt::format("{}: no dataset '/x'", file));
  const Shape shape = reader.shape("x");
  Batch batch;
  if (const auto* dense = std::get_if<DenseInput>(&model.input)) {
    if (shape.rank() != 3 || shape[2] != dense->size || reader.is_integer("x")) {
      throw FileError(fmt::format("{}: /x has shape {} of {}; this model reads floats [T, B, {}]", file,
                                  to_string(shape), reader.is_integer("x") ? "integers" : "floats",
                                  dense->size));
    }
    batch.features = reader.read<float>("x");
    for (const float x : batch.features) {
      if (!std::isfinite(x)) throw FileError(fmt::format("{}: /x holds a value that is not finite", file));
    }
    if (!order.empty()) {
      if (shape[0] != order.size()) {
        throw FileError(fmt::format("{}: /x has {} steps; this model reads {} in an order of its own", file,
                                    shape[0], order.size()));
      }
      const Tensor<float> original = batch.features.copy();
      for (Index t = 0; t < order.size(); ++t)
        copy<float>(original.view()[order(t)], batch.features.view()[t]);
    }
  } else {
    if (shape.rank() != 2 || !reader.is_integer("x")) {
      throw FileError(fmt::format("{}: /x has shape {} of {}; this model reads integer symbols [T, B]", file,
                                  to_string(shape), reader.is_integer("x") ? "integers" : "floats"));
    }
    batch.symbols = reader.read<std::int32_t>("x");
  }
  if (shape.count() == 0)
    throw FileError(fmt::format("{}: /x is empty, its shape is {}", file, to_string(shape)));
  if (reader.has("lengths")) batch.lengths = reader.read<std::int32_t>("lengths");
  return batch;
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
  ModelFileInfo info;
  const auto model = load_model(settings.model, execution, &info);
  const Batch batch = read_input(settings.input, info.model, info.permutation).copy(model->device());
  const Shape& steps = batch.symbols.empty() ? batch.features.shape() : batch.symbols.shape();
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
  writer.dataset("logits", logits);
  writer.dataset("h_last", state.back());
  for (std::size_t i = 0; state.size() > 1 && i < state.size(); ++i)
    writer.dataset(fmt::format("h_last{}", i), state[i]);
  writer.commit(settings.output);
  fmt::print("{}: /logits {}, /h_last {}\n", printable(settings.output), to_string(logits.shape()),
             to_string(state.back().shape()));
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
  command->add_option("-o,--output", settings->output, "HDF5 file to write: /logits and /h_last")->required();
  command->add_flag("--verbose", settings->verbose, "Print how the recurrence of each cell is computed");
  settings->machine.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return predict(*settings); }; });
}

}  // namespace orthornn::program
