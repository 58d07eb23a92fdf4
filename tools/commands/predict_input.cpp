#include "commands/predict_input.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "commands/clip_pictures.hpp"
#include "commands/suggestion.hpp"
#include "commands/task_data.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/tasks/sequences_task.hpp"

namespace orthornn::program {
namespace {

/// Throws FileError for sequences beside /x: a misnamed /lengths would change the outputs without a word.
void check_names(const std::string& file, const Hdf5Reader& reader) {
  for (const std::string& name : reader.names("/")) {
    if (name == "x" || name == "lengths") continue;
    throw FileError(fmt::format("{}: it has '/{}'{}; predict reads /x and /lengths, expected these alone",
                                file, name, did_you_mean("/" + name, {"/lengths"})));
  }
}

/// The lengths of sequences of T steps, or T for all.
std::vector<std::int32_t> read_lengths(const std::string& file, const Hdf5Reader& reader, Index steps,
                                       Index count) {
  if (!reader.has("lengths"))
    return std::vector<std::int32_t>(static_cast<std::size_t>(count), static_cast<std::int32_t>(steps));
  const Tensor<std::int32_t> lengths = reader.read<std::int32_t>("lengths");
  if (!(lengths.shape() == Shape{count})) {
    throw FileError(fmt::format("{}: /lengths has shape {}; expected [{}], one for each sequence of /x", file,
                                to_string(lengths.shape()), count));
  }
  for (Index b = 0; b < count; ++b) {
    if (lengths(b) >= 0 && lengths(b) <= steps) continue;
    throw FileError(
        fmt::format("{}: /lengths: sequence {} has length {}; expected 0 to {}", file, b, lengths(b), steps));
  }
  return {lengths.begin(), lengths.end()};
}

/// The form with /x [T, B, ..].
PredictInput read_steps_first(const std::string& file, const Hdf5Reader& reader,
                              const std::optional<Index>& numbers) {
  check_names(file, reader);
  const Shape shape = reader.shape("x");
  if (shape.rank() != (numbers ? 3 : 2) || reader.is_integer("x") == numbers.has_value()) {
    throw FileError(
        fmt::format("{}: /x has shape {} of {}; this model reads {}", file, to_string(shape),
                    reader.is_integer("x") ? "integers" : "floats",
                    numbers ? fmt::format("floats [T, B, {}]", *numbers) : "integer symbols [T, B]"));
  }
  if (shape.count() == 0)
    throw FileError(fmt::format("{}: /x is empty, its shape is {}", file, to_string(shape)));
  PredictInput input{
      .lengths = read_lengths(file, reader, shape[0], shape[1]), .steps_first = shape[0], .array = "/x"};
  if (numbers) {
    input.features = one_after_the_other<float>(reader.read<float>("x").view());
  } else {
    input.symbols = one_after_the_other<std::int32_t>(reader.read<std::int32_t>("x").view());
  }
  return input;
}

/// A form of docs/own-data.md, or of the task alone.
PredictInput taken(SequenceInputs found, const std::string& file, const std::optional<Index>& numbers) {
  if (found.features.empty() == numbers.has_value()) {
    throw FileError(fmt::format(
        "{}: its steps are {}; this model reads {}", file, numbers ? "symbols" : "numbers",
        numbers ? fmt::format("{} numbers a step, an array 'inputs' or columns of a CSV file", *numbers)
                : "an array 'symbols' of whole numbers"));
  }
  return {.features = std::move(found.features),
          .symbols = std::move(found.symbols),
          .lengths = std::move(found.lengths),
          .names = std::move(found.names)};
}

/// Throws FileError for a file that is no HDF5, with the forms that the task alone reads, if any.
std::unique_ptr<Hdf5Reader> open_hdf5(const std::string& file, const Task* task) {
  try {
    return std::make_unique<Hdf5Reader>(file);
  } catch (const FileError& error) {
    const auto known = find_name<TaskOptions>(task != nullptr ? task->name() : "");
    const std::string forms = known ? own_forms(*known) : "";
    if (forms.empty() || !std::filesystem::is_regular_file(file)) throw;
    throw FileError(
        fmt::format("{}. This model of the task {} also reads {}", error.what(), task->name(), forms));
  }
}

PredictInput read_form(const std::string& file, const std::optional<Index>& numbers, const Task* task) {
  if (task != nullptr) {
    if (std::optional<SequenceInputs> own = task->own_inputs(file))
      return taken(std::move(*own), file, numbers);
  }
  const std::string extension = std::filesystem::path(file).extension().string();
  const bool has_frames = task != nullptr && predicts_frames(task->data());
  // No frames are text.
  if (extension != ".npz" && extension != ".csv" && (extension != ".txt" || has_frames)) {
    const std::unique_ptr<Hdf5Reader> reader = open_hdf5(file, task);
    if (reader->has("x")) return read_steps_first(file, *reader, numbers);
    if (!reader->has("inputs") && !reader->has("symbols"))
      throw FileError(fmt::format("{}: no dataset '/x', '/inputs' or '/symbols'", file));
  }
  return taken(SequencesTask().read_inputs(file), file, numbers);
}

}  // namespace

PredictInput read_predict_input(const std::string& file, const ModelOptions& model,
                                const Tensor<std::int32_t>& order, const Task* task) {
  PredictInput input = read_form(file, numbers_of(model), task);
  input.file = file;
  try {
    bring_to_model(input, model, order, task);
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", file, error.what()));
  }
  return input;
}

}  // namespace orthornn::program
