#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "commands/any_model.hpp"
#include "commands/array_file.hpp"
#include "commands/clip_pictures.hpp"
#include "commands/field_options.hpp"
#include "commands/machine.hpp"
#include "commands/output_file.hpp"
#include "commands/predict_input.hpp"
#include "commands/predict_output.hpp"
#include "commands/program.hpp"
#include "commands/progress.hpp"
#include "commands/task_data.hpp"
#include "train/generate_text.hpp"

namespace orthornn::program {
namespace {

struct PredictSettings {
  std::string model;
  std::vector<std::string> inputs;
  std::string output;
  bool states = false;
  Index ahead = 0;
  bool overwrite = false;
  bool verbose = false;
  GenerateOptions generate;
  MachineOptions machine;
};

/// Throws UsageError for files and options that do not fit one another.
void check_files(const PredictSettings& settings) {
  check_prediction_form(settings.output, settings.states);
  if (settings.ahead > 0 && !is_array_file(settings.output)) {
    throw UsageError(
        fmt::format("--ahead needs a file of arrays, and '{}' is text; give --out a name that ends in "
                    ".h5, .hdf5 or .npz",
                    settings.output));
  }
  std::vector<std::string> read = settings.inputs;
  read.push_back(settings.model);
  for (const std::string& file : read) {
    std::error_code missing;  // no file yet: nothing to overwrite
    if (std::filesystem::equivalent(file, settings.output, missing))
      throw UsageError(
          fmt::format("--out '{}' is a file that is read; choose another name", settings.output));
  }
  check_output(settings.output, OutputKind::predictions, settings.overwrite);
}

/// Throws UsageError for a model that has no states at every step.
void check_states(const std::string& file, const SequenceModel<float>& model) {
  check_reads_forward("--states", file, model);
  Index states = 0;
  for (Index i = 0; i < model.cell_count(); ++i) states += model.cell(i).state_count();
  if (states == 0)
    throw UsageError(fmt::format("--states is for recurrent models, and no layer of '{}' has a state", file));
}

/// Throws Error where so many frames ahead of so many clips do not fit the free memory.
void check_ahead_memory(Index ahead, Index clips, const SequenceModel<float>& model) {
  constexpr double copies = 3;  // those of all clips, and those of a batch on the device and the host
  const double numbers = static_cast<double>(ahead) * static_cast<double>(clips) *
                         static_cast<double>(output_size_of(model.options().readout));
  check_free_memory(fmt::format("--ahead {}: such frames take", ahead), copies * numbers * sizeof(float),
                    "choose fewer");
}

PredictionNames prediction_names(const PredictSettings& settings, const SequenceModel<float>& model,
                                 const std::vector<PredictInput>& inputs, const Task* task) {
  const Index outputs =
      std::visit([](const auto& readout) { return readout.outputs; }, model.options().readout);
  PredictionNames names{.has_classes = model.options().loss == Loss::softmax_cross_entropy};
  if (std::vector<std::string> own = task != nullptr ? task->class_names() : std::vector<std::string>();
      names.has_classes && std::ssize(own) == outputs)
    names.classes = std::move(own);
  if (inputs.size() > 1) names.files = settings.inputs;
  const bool have_names =
      std::ranges::any_of(inputs, [](const PredictInput& input) { return !input.names.empty(); });
  for (std::size_t file = 0; file < inputs.size(); ++file) {
    for (Index i = 0; i < inputs[file].count(); ++i) {
      names.file_of.push_back(static_cast<std::int32_t>(file));
      if (!have_names) continue;
      const std::vector<std::string>& own = inputs[file].names;
      names.sequences.push_back(own.empty() ? std::to_string(i) : own[static_cast<std::size_t>(i)]);
    }
  }
  return names;
}

/// Writes a text that the model draws to the standard output, line by line.
int generate(const PredictSettings& settings) {
  if (!settings.inputs.empty() || !settings.output.empty() || settings.states || settings.ahead > 0 ||
      settings.overwrite || settings.verbose) {
    throw UsageError(
        "--generate writes a text to the standard output; expected no input files, and no --out, --states, "
        "--ahead, --overwrite or --verbose");
  }
  const Execution execution = settings.machine.apply();
  ModelFileInfo info;
  const auto model = load_model(settings.model, execution, &info);
  const std::unique_ptr<Task> task = task_of_model(info);
  if (task == nullptr || task->text() == nullptr) {
    throw UsageError(
        fmt::format("--generate needs a model of texts, and '{}' is none; expected one that "
                    "train sequences has made of a .txt file or a text column",
                    settings.model));
  }
  // By lines: a character may be several symbols.
  std::string line;
  const bool is_shown = isatty(STDOUT_FILENO) != 0;
  const auto write_line = [&] {
    fmt::print("{}\n", is_shown ? printable(line) : line);
    std::fflush(stdout);
    line.clear();
  };
  generate_text(*model, *task, settings.generate, [&](std::string_view more) {
    for (const char c : more) {
      if (c == '\n')
        write_line();
      else
        line.push_back(c);
    }
  });
  if (!line.empty()) write_line();
  return success;
}

int predict(const PredictSettings& settings) {
  if (settings.generate.symbols > 0) return generate(settings);
  if (settings.inputs.empty()) throw UsageError("predict needs an input file of sequences, or --generate");
  if (settings.output.empty()) throw UsageError("predict needs --out FILE for its results");
  const Execution execution = settings.machine.apply();
  check_files(settings);
  ModelFileInfo info;
  const auto model = load_model(settings.model, execution, &info);
  if (settings.states) check_states(settings.model, *model);
  const std::unique_ptr<Task> task = task_of_model(info);
  const SequenceData data = task != nullptr ? task->data() : SequenceData();
  const bool has_frames = predicts_frames(data);
  if (settings.ahead > 0) {
    check_ahead(settings.model, task.get(), info.task_name);
    check_reads_forward("--ahead", settings.model, *model);
  }
  std::vector<PredictInput> inputs;
  for (const std::string& file : settings.inputs)
    inputs.push_back(read_predict_input(file, model->options(), info.permutation, task.get()));
  if (settings.ahead > 0) check_ahead_memory(settings.ahead, StepLayout(inputs).count(), *model);
  const BatchPart part = first_part(StepLayout(inputs), inputs[0]);
  // Throws now what would else be said of the input.
  const Json cells = recurrences(*model, part.steps, part.sequences);
  if (settings.verbose) print_recurrences(cells, execution, part.steps, part.sequences);
  Progress progress("predicting", StepLayout(inputs).count(), "sequences");
  const Predictions found = predictions_of(*model, inputs, task.get(), {settings.states, settings.ahead},
                                           [&](Index sequences) { progress.advance(sequences); });
  PredictionNames names = prediction_names(settings, *model, inputs, task.get());
  if (has_frames) names.frame_size = {data.height, data.width};
  fmt::print("{}: {}\n", printable(settings.output), write_predictions(settings.output, found, names));
  return success;
}

}  // namespace

void add_predict(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("predict", "Outputs of a model for inputs of your own");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<PredictSettings>();
  command->add_option("model", settings->model, "Model file")->required();
  std::string inputs =
      "Files of sequences: .h5, .hdf5, .npz, .csv or .txt as train sequences reads them, targets left out; "
      "or "
      "HDF5 with /x, [T, B, K] floats or [T, B] integer symbols, and perhaps /lengths [B]";
  for (const auto& task : Names<TaskOptions>::list) {
    if (const std::string forms = own_forms(task.value); !forms.empty())
      inputs += fmt::format("; for a model of the task {} also {}", task.name, forms);
  }
  command->add_option("input", settings->inputs, inputs);
  command->add_option(
      "-o,--out,--output", settings->output,
      "File to write, whose form its name tells: .h5, .hdf5 or .npz with outputs, classes, "
      "probabilities and last states; .csv or .jsonl with outputs or classes and probabilities");
  command->add_flag("--states", settings->states,
                    "Also write the states of every layer at every step, to HDF5 or npz");
  add_value(
      *command, "--ahead", settings->ahead,
      "Also write so many frames after each clip, which a model of videos predicts from its own predictions",
      domain::count);
  GenerateOptions& generate = settings->generate;
  add_value(*command, "--generate", generate.symbols,
            "Draw so many symbols from a model of texts, and print the text line by line", domain::count);
  CLI::Option* drawn = command->get_option("--generate");
  add_value(*command, "--temperature", generate.temperature,
            "Divides the logits of a symbol that is drawn; 0: the likeliest symbol", domain::not_negative)
      ->needs(drawn);
  command->add_option("--prompt", generate.prompt, "Text that the generated one goes on from")->needs(drawn);
  add_value(*command, "--seed", generate.seed, "Seed of the draws")->needs(drawn);
  add_overwrite(*command, settings->overwrite);
  command->add_flag("--verbose", settings->verbose, "Print how the recurrence of each cell is computed");
  settings->machine.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return predict(*settings); }; });
}

}  // namespace orthornn::program
