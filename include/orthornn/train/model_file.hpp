#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "orthornn/nn/encoder_decoder.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/train/trainer.hpp"

namespace orthornn {

// HDF5 files of the format "orthornn-model", version 2, or 3 of a model that has a kind;
// include/orthornn/io/README.md has the table of paths and shapes.

/// Options of a program's own model, which is not among orthornn's kinds. Only that program can read them.
struct OwnModelOptions {
  /// Name of the kind, which `text` has under "kind".
  std::string kind;
  /// Text of `Model::options_text()`.
  std::string text;
};

/// Options of a model of any kind that a file may hold.
using AnyModelOptions = std::variant<ModelOptions, EncoderDecoderOptions, OwnModelOptions>;

/// Throws ValueError always: only the program knows the layout of its own model.
template <class T>
ParameterSet<T> parameter_layout(const OwnModelOptions& options);

/// Content of a model file, without the parameters and moments.
struct ModelFileInfo {
  /// Version of the format, 1 to 3.
  std::int64_t format_version = 0;
  /// Version of the library that wrote the file.
  std::string library_version;
  /// Options of model, task and trainer, as JSON text.
  std::string config;
  /// Options of the model.
  AnyModelOptions model;
  /// Name of the task; empty when the model was saved without a task.
  std::string task_name;
  /// Text of `Task::config()`; empty when the model was saved without a task.
  std::string task_config;
  /// Options of the trainer; defaults when the model was saved without one.
  TrainerOptions trainer;
  /// Sequences of a training batch; 0 when the model was saved without a trainer.
  Index batch = 0;
  /// Seed of the task; 0 when the model was saved without a trainer.
  std::uint64_t seed = 0;
  /// Number of training steps taken; no value when the model was saved without a trainer.
  std::optional<std::int64_t> steps;
  /// Best result of the training so far; no value where there is none.
  std::optional<BestResult> best;
  /// Name of the optimizer; empty when the model was saved without a trainer.
  std::string optimizer;
  /// Order in which the model reads an input, `Task::input_order()`, [T]; empty for the original order.
  Tensor<std::int32_t> permutation;
  /// Parts of the task, `Task::parts()`.
  std::vector<TaskPart> parts;
};

/// Saves a model of any kind, without a training. The file is replaced in one step, as write_file_atomically
/// does. Throws FileError, and ValueError for parameters that are not finite and for options that could not
/// be read again, such as those of a program's own model without a kind.
void save_model(const std::filesystem::path& file, const Model<float>& model);
/// Saves model, task, optimizer and training state: everything that `restore` needs to go on, on any device.
/// The file is replaced in one step, as write_file_atomically does. Throws FileError, as
/// `Trainer::synchronize`, and for a training that could not be resumed: DivergenceError for a parameter or
/// moment that is not finite, ValueError for an option that could not be read again. The file is then as it
/// was.
void save_checkpoint(const std::filesystem::path& file, Trainer& trainer);
/// Saves a training in each of several files, in order; the state is read and arranged once. Throws as
/// `save_checkpoint` of one file. Where a file cannot be written, the files after it stay as they were.
void save_checkpoint(std::span<const std::filesystem::path> files, Trainer& trainer);
/// Puts the content of a checkpoint into an empty writer. `commit` of the writer saves it, also later, when
/// the training has gone on. Throws as `save_checkpoint`, except the errors of a file.
void write_checkpoint(Hdf5Writer& writer, Trainer& trainer);

/// Reads the content of a model file, without the parameters. Throws FileError, with its reason, for a file
/// that is missing, damaged, truncated, foreign or newer.
ModelFileInfo read_model_info(const std::filesystem::path& file);
/// Makes the task that a model was trained on, from its file alone; null for a model that was saved without a
/// task, and for a task that this program does not know. Throws as `make_task`.
std::unique_ptr<Task> task_of_model(const ModelFileInfo& info);
/// Loads a model of any of orthornn's kinds and prepares it. `info`, unless null, gets the result of
/// `read_model_info`. Where the dense form of CWY would take far more memory than the file holds, the model
/// has the factored form. Throws FileError as `read_model_info`, and for a program's own model.
std::unique_ptr<Model<float>> load_any_model(const std::filesystem::path& file,
                                             const Execution& execution = {}, ModelFileInfo* info = nullptr);
/// Loads a SequenceModel, as `load_any_model`. Throws FileError for a file with a model of another kind too.
std::unique_ptr<SequenceModel<float>> load_model(const std::filesystem::path& file,
                                                 const Execution& execution = {},
                                                 ModelFileInfo* info = nullptr);
/// Loads an EncoderDecoder, as `load_any_model`. Throws FileError for a file with a model of another kind
/// too.
std::unique_ptr<EncoderDecoder<float>> load_encoder_decoder(const std::filesystem::path& file,
                                                            const Execution& execution = {},
                                                            ModelFileInfo* info = nullptr);
/// Puts the parameters of a file into a model that was made with equal options, and prepares it. The model
/// may be of any kind, also a program's own. `info`, unless null, gets the result of `read_model_info`.
/// Throws FileError as `read_model_info`, and where kind, options or parameters differ; the model's
/// parameters are then as they were.
void load_parameters(const std::filesystem::path& file, Model<float>& model, ModelFileInfo* info = nullptr);

/// Parameter that a model did not take from a file.
struct UntakenParameter {
  /// Name of the parameter.
  std::string name;
  /// Shape in the model.
  Shape shape;
  /// Shape in the file; no value where the file has no parameter of this name.
  std::optional<Shape> shape_in_file;
};
/// Result of `take_parameters`, in the order of the model's parameters.
struct TakenParameters {
  /// Names of the parameters that are those of the file now.
  std::vector<std::string> taken;
  /// Parameters that are as they were.
  std::vector<UntakenParameter> untaken;
};
/// Takes each parameter that a file has under the same name and in the same shape, and prepares the model.
/// The other parameters stay as they are. Options and kind of the model in the file may be any. Throws
/// FileError as `read_model_info`, where no parameter fits, for numbers that are not finite, and where the
/// model cannot have these parameters; all parameters are then as they were.
TakenParameters take_parameters(const std::filesystem::path& file, Model<float>& model);

/// Puts parameters, moments, step and best result of a file into a trainer that was made with equal options,
/// for a model of any kind. The next steps have the bits of an uninterrupted training. Throws FileError when
/// the file does not fit; the trainer is then as it was.
void restore(const std::filesystem::path& file, Trainer& trainer);

/// Checks that `restore` would take a file, and returns the result of `read_model_info`. Throws FileError for
/// a file of another training or without a training state. Parameters and moments are not read.
ModelFileInfo check_resumable(const std::filesystem::path& file, const Trainer& trainer);

/// Writes the model of the file `from`, and the training that it holds, to the file `to` in the present
/// format version, with equal numbers. `from` and `to` may be one file. Throws FileError as `load_model` and
/// `restore`, and if `to` cannot be written; `to` is then as it was.
void convert_model(const std::filesystem::path& from, const std::filesystem::path& to);

/// Options of a model as the JSON text of a model file's config (format version 2 or 3).
std::string to_json(const ModelOptions& options);
/// Options of a trainer as the JSON text of a model file's config (format version 2 or 3).
std::string to_json(const TrainerOptions& options);
/// Reads the options of a model from the JSON text of a config (format version 2 or 3). Throws ValueError for
/// other text.
ModelOptions model_options_from_json(const std::string& text);
/// Reads the options of a trainer from the JSON text of a config (format version 2 or 3). Throws ValueError
/// for other text.
TrainerOptions trainer_options_from_json(const std::string& text);

}  // namespace orthornn
