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
// include/orthornn/io/README.md has the table of paths and shapes. Saving replaces the file in one step:
// whatever happens, the old model or the new one is there, whole.

/// Options of a Model that a program has beside those of orthornn. Files keep them for that program alone.
struct OwnModelOptions {
  /// As `text` has it under "kind".
  std::string kind;
  /// `Model::options_text()`
  std::string text;
};

/// Options of a model of any kind that a file may hold.
using AnyModelOptions = std::variant<ModelOptions, EncoderDecoderOptions, OwnModelOptions>;

/// Throws ValueError: the layout of a program's own model is known to that program.
template <class T>
ParameterSet<T> parameter_layout(const OwnModelOptions& options);

/// Everything a model file says besides numbers.
struct ModelFileInfo {
  std::int64_t format_version = 0;
  std::string library_version;
  /// JSON text of all options.
  std::string config;
  AnyModelOptions model;
  /// Empty when the model was saved without a task.
  std::string task_name;
  /// `Task::config()`
  std::string task_config;
  TrainerOptions trainer;
  Index batch = 0;
  std::uint64_t seed = 0;
  /// Absent when the model was saved without a trainer.
  std::optional<std::int64_t> steps;
  std::optional<BestResult> best;
  std::string optimizer;
  Tensor<std::int32_t> permutation;
  std::vector<TaskPart> parts;
};

/// Only the model, of any kind. Throws FileError, and ValueError for parameters that are not finite and for
/// options that could not be read again, such as those of a program's own model without a kind.
void save_model(const std::filesystem::path& file, const Model<float>& model);
/// Model, task, optimizer and training state: all that `restore` needs to go on, on any device. Throws as
/// `Trainer::synchronize` as well, and for a training that could not be resumed: DivergenceError for a
/// parameter or moment that is not finite, ValueError for such an option. The file is then as it was.
void save_checkpoint(const std::filesystem::path& file, Trainer& trainer);
/// The same in each of several files, in order: the state is read and arranged once. Where one cannot be
/// written, those after it stay as they were.
void save_checkpoint(std::span<const std::filesystem::path> files, Trainer& trainer);
/// Puts what `save_checkpoint` saves into an empty writer, and throws as it does, but for what goes wrong
/// with a file. `commit` of the writer saves it, also later, when the training has gone on.
void write_checkpoint(Hdf5Writer& writer, Trainer& trainer);

/// Throws FileError with its reason for a file that is missing, damaged, truncated, foreign or newer.
ModelFileInfo read_model_info(const std::filesystem::path& file);
/// A model of any kind. The same errors; `info`, unless null, gets what `read_model_info` says of the same
/// file. Where the dense form of CWY would take far more memory than the file holds, the model has the
/// factored form.
std::unique_ptr<Model<float>> load_any_model(const std::filesystem::path& file,
                                             const Execution& execution = {}, ModelFileInfo* info = nullptr);
/// The same for a file with a model of this kind; FileError for another.
std::unique_ptr<SequenceModel<float>> load_model(const std::filesystem::path& file,
                                                 const Execution& execution = {},
                                                 ModelFileInfo* info = nullptr);
std::unique_ptr<EncoderDecoder<float>> load_encoder_decoder(const std::filesystem::path& file,
                                                            const Execution& execution = {},
                                                            ModelFileInfo* info = nullptr);
/// Puts the parameters of a file into a model of any kind, a program's own among them, that was made with the
/// same options, and prepares it. Throws FileError where kind, options or parameters differ; the
/// model's parameters are then as they were.
void load_parameters(const std::filesystem::path& file, Model<float>& model, ModelFileInfo* info = nullptr);
/// Puts parameters, moments and step into a trainer made with the same options, of a model of any kind; its
/// next steps have the bits that an uninterrupted training would have had. Throws FileError when the file
/// does not fit.
void restore(const std::filesystem::path& file, Trainer& trainer);

/// What `read_model_info` says of a file that `restore` would take. Throws FileError for a file of another
/// training or without a training state; the numbers in it are not read.
ModelFileInfo check_resumable(const std::filesystem::path& file, const Trainer& trainer);

/// Writes the model of the file `from`, and the training that it holds, to the file `to` in the present
/// format version, with the same numbers. Both may be one file. Throws FileError as `load_model` and
/// `restore`, or if `to` cannot be written; `to` is then as it was.
void convert_model(const std::filesystem::path& from, const std::filesystem::path& to);

/// Options as the JSON text of a model file's config (format version 2 or 3), and back; throws ValueError for
/// text that is not.
std::string to_json(const ModelOptions& options);
std::string to_json(const TrainerOptions& options);
ModelOptions model_options_from_json(const std::string& text);
TrainerOptions trainer_options_from_json(const std::string& text);

}  // namespace orthornn
