#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "orthornn/core/random.hpp"
#include "orthornn/version.hpp"
#include "train/model_file_parts.hpp"

namespace orthornn {
namespace {

/// Control characters of a stranger's file must not reach a terminal.
void check_printable(const char* what, const std::string& text) {
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.size() <= 100 && std::ranges::all_of(text, printable)) return;
  throw ValueError(fmt::format("the {} has {} bytes; expected at most 100, all of them printable ASCII", what,
                               text.size()));
}

/// What the JSON says of `what`. Throws ValueError for other members and values, UnknownKind as read_fields.
template <class Options>
Options options_of(const Json& json, const char* what) {
  try {
    Options options;
    read_fields(json, options);
    return options;
  } catch (const UnknownKind&) {
    throw;
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("this is not a description of {}: {}", what, error.what()));
  }
}

/// The description of a model as the present format has it.
Json present_model(Json model, std::int64_t version) {
  if (version >= first_of_kinds || !model.contains("cells") || !model["cells"].is_array()) return model;
  for (Json& cell : model["cells"]) {
    if (!cell.is_object()) continue;
    if (cell.contains("kind")) {
      throw ValueError(
          "a cell has the key 'kind'; expected none in format version 1, where all cells are orthogonal");
    }
    cell["kind"] = OrthogonalCell::name;
  }
  return model;
}

/// The kinds of models in messages.
std::string kind_of(const ModelOptions&) { return "layers that read one sequence, for predict"; }
std::string kind_of(const EncoderDecoderOptions&) { return "an encoder and a decoder, for translate"; }
std::string kind_of(const OwnModelOptions& options) {
  return fmt::format("one of the kind '{}'", options.kind);
}

constexpr const char* permutation_name = "permutation";

/// Makes sure that the file is a model of a version that can be read.
void check_format(const Hdf5Reader& reader) {
  const std::filesystem::path& file = reader.file();
  if (!reader.has_attribute("/", "format") || reader.string_attribute("/", "format") != format_name) {
    throw FileError(
        fmt::format("{} is an HDF5 file but no orthornn model: its attribute 'format' is not '{}'",
                    file.string(), format_name));
  }
  const std::int64_t found = reader.int_attribute("/", "format_version");
  if (found > format_version) {
    throw FileError(fmt::format(
        "{} has model format version {}, this orthornn ({}) reads up to {}; a newer orthornn is needed",
        file.string(), found, version(), format_version));
  }
  if (found < 1) {
    throw FileError(fmt::format("{} has model format version {}; the first is 1", file.string(), found));
  }
}

/// Fills the bytes of the parts that the config names.
void read_parts(const Hdf5Reader& reader, std::vector<TaskPart>& parts) {
  std::size_t bytes_of_parts = 0;
  for (TaskPart& part : parts) {
    // Several names may stand for one dataset.
    const Shape shape = reader.shape("task/" + part.name);
    bytes_of_parts += static_cast<std::size_t>(shape.count());
    if (shape.rank() != 1 || bytes_of_parts > reader.file_size()) {
      refuse(reader,
             "'task/{}' has the shape {}; expected [bytes], and in all parts at most the "
             "{} bytes of the file",
             part.name, to_string(shape), reader.file_size());
    }
    const Tensor<std::uint8_t> bytes = reader.read<std::uint8_t>("task/" + part.name);
    part.bytes.assign(bytes.begin(), bytes.end());
  }
}

/// Fills what the group 'training' says, and the name of the optimizer.
void read_training(const Hdf5Reader& reader, ModelFileInfo& info) {
  if (info.task_config.empty() || info.batch == 0)
    refuse(reader, "it has a group 'training', but its config names no task or no training");
  info.steps = count_attribute(reader, "training", "step");
  if (reader.int_attribute("training", "seed") != static_cast<std::int64_t>(info.seed))
    refuse(reader, "attribute 'seed' of 'training' is not {}, as the config has it", info.seed);
  if (reader.has_attribute("training", "best_metric")) {
    const BestResult best{reader.double_attribute("training", "best_metric"),
                          count_attribute(reader, "training", "best_step")};
    // A loss that is not finite is never the best, also where a file says so.
    if (std::isfinite(best.loss)) info.best = best;
  }
  info.optimizer = reader.string_attribute("optimizer", "name");
}

}  // namespace

AnyModelOptions read_model_options(const Json& model, std::int64_t version) {
  if (!model.contains("kind")) return options_of<ModelOptions>(present_model(model, version), "a model");
  const std::string kind = text_member(model, "kind");
  if (kind == EncoderDecoderOptions::name)
    return options_of<EncoderDecoderOptions>(model, "an encoder and a decoder");
  check_printable("kind of the model", kind);
  return OwnModelOptions{.kind = kind, .text = json_text(model, -1)};
}

void read_config(const std::string& text, std::int64_t version, ModelFileInfo& info) {
  const Json config = parse_json(text);
  info.config = text;
  info.model = read_model_options(object_member(config, "model"), version);
  if (config.contains("task")) {
    info.task_config = json_text(object_member(config, "task"), -1);
  }
  if (config.contains("parts")) {
    for (const Json& part : array_member(config, "parts"))
      info.parts.push_back({text_member(part, "name"), ""});
  }
  if (config.contains("training")) {
    const Json& training = object_member(config, "training");
    info.trainer = options_of<TrainerOptions>(training, "a training");
    TaskSource source;
    read_fields(training, source);
    info.batch = source.batch;
    info.seed = source.seed;
  }
}

Json checked_options(const Model<float>& model) {
  const Json options = parse_json(model.options_text());
  const bool own = dynamic_cast<const SequenceModel<float>*>(&model) == nullptr &&
                   dynamic_cast<const EncoderDecoder<float>*>(&model) == nullptr;
  if (own && (!options.is_object() || !options.contains("kind") || !options.at("kind").is_string() ||
              options.at("kind") == EncoderDecoderOptions::name)) {
    throw ValueError(
        fmt::format(R"(the options of a program's own model are an object with a "kind" of its own, such as )"
                    R"({{"kind": "my_model", "size": 3}}; found {})",
                    json_text(options, -1).substr(0, 100)));
  }
  read_model_options(options, format_version);
  return options;
}

Json json_of(const AnyModelOptions& options) {
  return std::visit(
      []<class Options>(const Options& chosen) {
        if constexpr (std::is_same_v<Options, OwnModelOptions>)
          return parse_json(chosen.text);
        else
          return json_object(chosen);
      },
      options);
}

std::string kind_of(const AnyModelOptions& options) {
  return std::visit([](const auto& chosen) { return kind_of(chosen); }, options);
}

std::string unknown_kind(const OwnModelOptions& options) {
  return fmt::format("its model is {}, which orthornn does not know; use it with the program that made it",
                     kind_of(options));
}

template <class T>
ParameterSet<T> parameter_layout(const OwnModelOptions& options) {
  throw ValueError(unknown_kind(options));
}
template ParameterSet<float> parameter_layout<float>(const OwnModelOptions&);

std::unique_ptr<Task> task_of_model(const ModelFileInfo& info) {
  const std::vector<std::string> known = task_names();
  if (std::ranges::find(known, info.task_name) == known.end()) return nullptr;
  return make_task(info.task_config, {.batch = std::max<Index>(info.batch, 1),
                                      .seed = info.seed,
                                      .input_order = info.permutation,
                                      .parts = info.parts});
}

std::string to_json(const ModelOptions& options) { return json_object(options).dump(); }
std::string to_json(const TrainerOptions& options) { return json_object(options).dump(); }
ModelOptions model_options_from_json(const std::string& text) {
  return options_of<ModelOptions>(parse_json(text), "a model");
}
TrainerOptions trainer_options_from_json(const std::string& text) {
  return options_of<TrainerOptions>(parse_json(text), "a training");
}

std::int64_t count_attribute(const Hdf5Reader& reader, const std::string& object, const std::string& name) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  const std::int64_t count = reader.int_attribute(object, name);
  if (count < 0 || count > most) {
    refuse(reader, "attribute '{}' of '{}' is {}; expected 0 to 2^53", name, object, count);
  }
  return count;
}

void check_names(const std::vector<TaskPart>& parts) {
  constexpr std::size_t most_parts = 16, longest_name = 64;
  if (parts.size() > most_parts)
    throw ValueError(fmt::format("the task has {} parts; expected at most {}", parts.size(), most_parts));
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    if (part->name.empty() || part->name.size() > longest_name || !std::ranges::all_of(part->name, letter) ||
        part->name == permutation_name) {
      throw ValueError(fmt::format(
          "a part of the task has a name of {} bytes; expected 1 to {} of a to z and _, and not {}",
          part->name.size(), longest_name, permutation_name));
    }
    if (std::ranges::count(parts.begin(), part, part->name, &TaskPart::name) > 0)
      throw ValueError(fmt::format("the part '{}' of the task is there twice", part->name));
  }
}

void check_info(const ModelFileInfo& info) {
  check_printable("library version", info.library_version);
  check_printable("task's name", info.task_name);
  if (!info.permutation.empty() &&
      (info.permutation.shape().rank() != 1 || !is_permutation(info.permutation))) {
    throw ValueError(fmt::format("'task/permutation' of shape {} is not a permutation of 0 .. T - 1",
                                 to_string(info.permutation.shape())));
  }
  // A task of a program's own is known to that program alone.
  const std::vector<std::string> known = task_names();
  if (info.task_config.empty() || std::ranges::find(known, info.task_name) == known.end()) return;
  const std::string named = text_member(parse_json(info.task_config), "task");
  if (named != info.task_name) {
    throw ValueError(
        fmt::format("its task is \"{}\", the attribute 'task' says '{}'", named, info.task_name));
  }
  const std::unique_ptr<Task> task = task_of_model(info);
  // Drawn anew it could be another than the one the model was trained with.
  if (!task->input_order().empty() && info.permutation.empty()) {
    throw ValueError(
        "there is no dataset 'task/permutation'; expected the order in which this model reads its input");
  }
}

ModelFileInfo info_of(const Hdf5Reader& reader) {
  check_format(reader);
  ModelFileInfo info;
  info.format_version = reader.int_attribute("/", "format_version");
  info.library_version = reader.string_attribute("/", "library_version");
  info.task_name = reader.string_attribute("/", "task");
  try {
    read_config(reader.string_attribute("/", "config"), info.format_version, info);
    check_names(info.parts);
  } catch (const UnknownKind& error) {
    refuse(reader,
           "{}; a program registers kinds of its own, by register_layer and "
           "register_transition, before it reads files that have them",
           error.what());
  } catch (const ValueError& error) {
    refuse(reader, "the attribute 'config' is not what orthornn writes: {}", error.what());
  }
  if (reader.has("task/permutation")) info.permutation = reader.read<std::int32_t>("task/permutation");
  read_parts(reader, info.parts);
  if (reader.has("training")) read_training(reader, info);
  try {
    check_printable("optimizer's name", info.optimizer);
    check_info(info);
  } catch (const ValueError& error) {
    refuse(reader, "{}", error.what());
  }
  return info;
}

ModelFileInfo read_model_info(const std::filesystem::path& file) { return info_of(Hdf5Reader(file)); }

}  // namespace orthornn
