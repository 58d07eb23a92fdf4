#pragma once
// What the sources of model files share: the versions of the format, and what more than one of writing,
// reading and resuming asks for.

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/parameters.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn {

inline constexpr const char* format_name = "orthornn-model";
// 2: cells have a kind, for there are LSTM and GRU. 3: models have a kind too, but those of one sequence. A
// file has the first version that has all of it, so that an older orthornn reads what it can.
inline constexpr std::int64_t format_version = 3, first_of_model_kinds = 3, first_of_kinds = 2;

/// Throws FileError "FILE: WHY".
template <class... Values>
[[noreturn]] void refuse(const Hdf5Reader& reader, fmt::format_string<Values...> why, Values&&... values) {
  throw FileError(
      fmt::format("{}: {}", reader.file().string(), fmt::format(why, std::forward<Values>(values)...)));
}

/// Dataset of state i that goes on to the next piece of long sequences (Model::carried).
inline std::string carried_path(std::size_t i) { return fmt::format("carried/{}", i); }

// Parameters (model_file_load.cpp).

/// Throws FileError unless the file holds each parameter as PREFIX/MODULE/NAME, as floats of its shape. Reads
/// no numbers, and takes no memory of their size.
void expect_parameters(const Hdf5Reader& reader, const std::string& prefix,
                       const ParameterSet<float>& layout);
/// Into the host memory of a flat buffer, after `expect_parameters`.
void read_parameters(const Hdf5Reader& reader, const std::string& prefix,
                     const ParameterSet<float>& parameters, TensorView<float> flat);

// What a file says besides its numbers (model_file_info.cpp).

/// The options of a model as a file of that version, or Model::options_text, has them. Throws ValueError.
AnyModelOptions read_model_options(const Json& model, std::int64_t version);
/// Fills what the JSON of the attribute `config` says in a file of that version. Throws ValueError.
void read_config(const std::string& text, std::int64_t version, ModelFileInfo& info);
/// The options of a model for a file that can be read again. Throws ValueError.
Json checked_options(const Model<float>& model);
/// The options as a file has them.
Json json_of(const AnyModelOptions& options);
/// The kind of a model in messages.
std::string kind_of(const AnyModelOptions& options);
/// Says that only the program that made such a model knows it.
std::string unknown_kind(const OwnModelOptions& options);

/// Throws ValueError unless these are names of datasets, each once. A stranger's file may list them.
void check_names(const std::vector<TaskPart>& parts);
/// Throws ValueError for what no model file may say. A save asks too: it must not write what a load refuses.
void check_info(const ModelFileInfo& info);
/// Steps are counted on from what a file says.
std::int64_t count_attribute(const Hdf5Reader& reader, const std::string& object, const std::string& name);
/// Throws FileError as `read_model_info`.
ModelFileInfo info_of(const Hdf5Reader& reader);

}  // namespace orthornn
