#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "train/model_file_parts.hpp"

namespace orthornn {
namespace {

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

}  // namespace

void check_printable(const char* what, const std::string& text) {
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.size() <= 100 && std::all_of(text.begin(), text.end(), printable)) return;
  throw ValueError(fmt::format("the {} has {} bytes; expected at most 100, all of them printable ASCII", what,
                               text.size()));
}

AnyModelOptions read_model_options(const Json& model, std::int64_t version) {
  if (!model.contains("kind")) return options_of<ModelOptions>(present_model(model, version), "a model");
  const std::string kind = text_member(model, "kind");
  if (kind == EncoderDecoderOptions::name)
    return options_of<EncoderDecoderOptions>(model, "an encoder and a decoder");
  check_printable("kind of the model", kind);
  return OwnModelOptions{.kind = kind, .text = model.dump(-1, ' ', /*ensure_ascii=*/true)};
}

void read_config(const std::string& text, std::int64_t version, ModelFileInfo& info) {
  const Json config = parse_json(text);
  info.config = text;
  info.model = read_model_options(object_member(config, "model"), version);
  if (config.contains("task")) {
    info.task_config = object_member(config, "task").dump(-1, ' ', /*ensure_ascii=*/true);
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
                    options.dump(-1, ' ', /*ensure_ascii=*/true).substr(0, 100)));
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

std::string to_json(const ModelOptions& options) { return json_object(options).dump(); }
std::string to_json(const TrainerOptions& options) { return json_object(options).dump(); }
ModelOptions model_options_from_json(const std::string& text) {
  return options_of<ModelOptions>(parse_json(text), "a model");
}
TrainerOptions trainer_options_from_json(const std::string& text) {
  return options_of<TrainerOptions>(parse_json(text), "a training");
}

}  // namespace orthornn
