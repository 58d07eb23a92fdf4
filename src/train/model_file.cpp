#include "orthornn/train/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/fields_json.hpp"
#include "core/fill_on_host.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/version.hpp"

namespace orthornn {
namespace {

constexpr const char* format_name = "orthornn-model";
// 2: cells have a kind, for there are LSTM and GRU. 3: models have a kind too, but those of one sequence. A
// file has the first version that has all of it, so that an older orthornn reads what it can.
constexpr std::int64_t format_version = 3, first_of_model_kinds = 3, first_of_kinds = 2;
constexpr const char* permutation_name = "permutation";

/// Throws FileError unless the file holds each parameter as PREFIX/MODULE/NAME, as floats of its shape. Reads
/// no numbers, and takes no memory of their size.
void expect_parameters(const Hdf5Reader& reader, const std::string& prefix,
                       const ParameterSet<float>& layout) {
  // Two names may stand for one dataset, so each may fit where all do not.
  const std::size_t bytes = Shape{layout.count()}.bytes(sizeof(float));
  if (bytes > reader.file_size()) {
    throw FileError(fmt::format(
        "{}: its config describes parameters of {} bytes in '{}'; expected fewer than the file's {}",
        reader.file().string(), bytes, prefix, reader.file_size()));
  }
  for (const Parameter& parameter : layout.list()) {
    reader.expect<float>(prefix + "/" + parameter.name, parameter.shape);
  }
}

/// Throws FileError as `expect_parameters`, and for anything else under that prefix.
void expect_only(const Hdf5Reader& reader, const std::string& prefix, const ParameterSet<float>& layout) {
  expect_parameters(reader, prefix, layout);
  std::map<std::string, std::set<std::string>> groups;
  for (const Parameter& parameter : layout.list()) {
    std::string path = prefix + "/" + parameter.name;
    while (path != prefix) {
      const std::size_t slash = path.rfind('/');
      groups[path.substr(0, slash)].insert(path.substr(slash + 1));
      path.resize(slash);
    }
  }
  for (const auto& [group, names] : groups) {
    for (const std::string& name : reader.names(group)) {
      if (names.contains(name)) continue;
      throw FileError(
          fmt::format("{}: it has '{}/{}', of which this model knows nothing; expected the "
                      "parameters of this model alone",
                      reader.file().string(), group, name));
    }
  }
}

/// Into the host memory of a flat buffer, after `expect_parameters`.
void read_parameters(const Hdf5Reader& reader, const std::string& prefix,
                     const ParameterSet<float>& parameters, TensorView<float> flat) {
  for (const Parameter& parameter : parameters.list()) {
    const std::string path = prefix + "/" + parameter.name;
    const TensorView<float> window(flat.data() + parameter.offset, parameter.shape, flat.device());
    reader.read_into<float>(path, window);
    for (const float x : window) {
      if (std::isfinite(x)) continue;
      throw FileError(
          fmt::format("{}: dataset '{}' holds a value that is not finite", reader.file().string(), path));
    }
  }
}

/// A file would hold a number that is not finite.
class NotFinite : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Writes a flat buffer of the set's layout, on any device. Throws NotFinite: a save must not replace a sound
/// file by one that cannot be loaded or resumed.
void write_finite_parameters(Hdf5Writer& writer, const std::string& prefix,
                             const ParameterSet<float>& parameters, TensorView<const float> flat) {
  parameters.check_allocated();
  Tensor<float> values;
  values.reserve(flat.shape());
  copy<float>(flat, values);
  for (const Parameter& parameter : parameters.list()) {
    const std::string path = prefix + "/" + parameter.name;
    const TensorView<const float> window(values.data() + parameter.offset, parameter.shape);
    if (!std::all_of(window.begin(), window.end(), [](float x) { return std::isfinite(x); })) {
      throw NotFinite(fmt::format("'{}' holds a value that is not finite, so nothing is saved", path));
    }
    writer.dataset(path, window);
  }
}

void write_model(Hdf5Writer& writer, const ParameterSet<float>& parameters, const Json& config,
                 const std::string& task_name) {
  writer.attribute("/", "format", format_name);
  writer.attribute("/", "format_version",
                   config.at("model").contains("kind") ? first_of_model_kinds : first_of_kinds);
  writer.attribute("/", "library_version", version());
  writer.attribute("/", "task", task_name);
  writer.attribute("/", "config", config.dump());
  write_finite_parameters(writer, "parameters", parameters, parameters.values());
}

/// What a training goes on from besides the parameters and the options.
struct TrainingState {
  std::int64_t step;
  std::uint64_t seed;
  std::optional<BestResult> best;
  ConstTensorView<std::int32_t> input_order;
  std::vector<TaskPart> parts;
};

void write_training(Hdf5Writer& writer, const ParameterSet<float>& parameters, Optimizer<float>& optimizer,
                    const TrainingState& training) {
  writer.group("optimizer");
  writer.attribute("optimizer", "name", optimizer.name());
  writer.attribute("optimizer", "steps", optimizer.steps());
  for (const auto& [name, moment] : optimizer.state())
    write_finite_parameters(writer, "optimizer/" + name, parameters, moment);
  writer.group("training");
  writer.attribute("training", "step", training.step);
  writer.attribute("training", "seed", static_cast<std::int64_t>(training.seed));
  if (training.best) {
    writer.attribute("training", "best_metric", training.best->loss);
    writer.attribute("training", "best_step", training.best->step);
  }
  writer.group("task");
  if (!training.input_order.empty()) writer.dataset("task/permutation", training.input_order);
  for (const TaskPart& part : training.parts) {
    Tensor<std::uint8_t> bytes(Shape{std::ssize(part.bytes)});
    std::ranges::copy(part.bytes, bytes.begin());
    writer.dataset("task/" + part.name, bytes);
  }
}

/// "cells/0/hidden_size is 8 there and 9 here": the first option in which two descriptions differ.
std::string first_difference(const std::string& there, const std::string& here) {
  const Json a = parse_json(there).flatten(), b = parse_json(here).flatten();
  const auto value = [](const Json& of, const std::string& key) {
    return of.contains(key) ? of.at(key).dump() : std::string("missing");
  };
  for (const Json* keys : {&a, &b}) {
    for (const auto& entry : keys->items()) {
      const std::string first = value(a, entry.key()), second = value(b, entry.key());
      if (first == second) continue;
      return fmt::format("{} is {} there and {} here", entry.key().substr(1), first, second);
    }
  }
  return "nothing differs";
}

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

[[noreturn]] void refuse(const Hdf5Reader& reader, const std::string& why) {
  throw FileError(fmt::format("{}: {}", reader.file().string(), why));
}

/// Steps are counted on from what a file says.
std::int64_t count_attribute(const Hdf5Reader& reader, const std::string& object, const std::string& name) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  const std::int64_t count = reader.int_attribute(object, name);
  if (count < 0 || count > most) {
    refuse(reader, fmt::format("attribute '{}' of '{}' is {}; expected 0 to 2^53", name, object, count));
  }
  return count;
}

/// Control characters of a stranger's file must not reach a terminal.
void check_printable(const char* what, const std::string& text) {
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.size() <= 100 && std::all_of(text.begin(), text.end(), printable)) return;
  throw ValueError(fmt::format("the {} has {} bytes; expected at most 100, all of them printable ASCII", what,
                               text.size()));
}

/// Throws ValueError unless these are names of datasets, each once. A stranger's file may list them.
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

/// The options of a model as a file of that version, or Model::options_text, has them. Throws ValueError.
AnyModelOptions read_model_options(const Json& model, std::int64_t version) {
  if (!model.contains("kind")) return options_of<ModelOptions>(present_model(model, version), "a model");
  const std::string kind = text_member(model, "kind");
  if (kind == EncoderDecoderOptions::name)
    return options_of<EncoderDecoderOptions>(model, "an encoder and a decoder");
  check_printable("kind of the model", kind);
  return OwnModelOptions{.kind = kind, .text = model.dump(-1, ' ', /*ensure_ascii=*/true)};
}

/// Fills what the JSON of the attribute `config` says in a file of that version. Throws ValueError.
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

/// Throws ValueError for what no model file may say. A save asks too: it must not write what a load refuses.
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
  if (info.task_config.empty() || std::find(known.begin(), known.end(), info.task_name) == known.end())
    return;
  const std::string named = text_member(parse_json(info.task_config), "task");
  if (named != info.task_name) {
    throw ValueError(
        fmt::format("its task is \"{}\", the attribute 'task' says '{}'", named, info.task_name));
  }
  const auto task = make_task(info.task_config, {.batch = std::max<Index>(info.batch, 1),
                                                 .seed = info.seed,
                                                 .input_order = info.permutation,
                                                 .parts = info.parts});
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
    refuse(reader, fmt::format("{}; a program registers kinds of its own, by register_layer and "
                               "register_transition, before it reads files that have them",
                               error.what()));
  } catch (const ValueError& error) {
    refuse(reader, fmt::format("the attribute 'config' is not what orthornn writes: {}", error.what()));
  }
  if (reader.has("task/permutation")) info.permutation = reader.read<std::int32_t>("task/permutation");
  std::size_t bytes_of_parts = 0;
  for (TaskPart& part : info.parts) {
    // Several names may stand for one dataset.
    const Shape shape = reader.shape("task/" + part.name);
    bytes_of_parts += static_cast<std::size_t>(shape.count());
    if (shape.rank() != 1 || bytes_of_parts > reader.file_size()) {
      refuse(reader, fmt::format("'task/{}' has the shape {}; expected [bytes], and in all parts at most the "
                                 "{} bytes of the file",
                                 part.name, to_string(shape), reader.file_size()));
    }
    const Tensor<std::uint8_t> bytes = reader.read<std::uint8_t>("task/" + part.name);
    part.bytes.assign(bytes.begin(), bytes.end());
  }
  if (reader.has("training")) {
    if (info.task_config.empty() || info.batch == 0)
      refuse(reader, "it has a group 'training', but its config names no task or no training");
    info.steps = count_attribute(reader, "training", "step");
    if (reader.int_attribute("training", "seed") != static_cast<std::int64_t>(info.seed))
      refuse(reader,
             fmt::format("attribute 'seed' of 'training' is not {}, as the config has it", info.seed));
    if (reader.has_attribute("training", "best_metric")) {
      const BestResult best{reader.double_attribute("training", "best_metric"),
                            count_attribute(reader, "training", "best_step")};
      // A loss that is not finite is never the best, also where a file says so.
      if (std::isfinite(best.loss)) info.best = best;
    }
    info.optimizer = reader.string_attribute("optimizer", "name");
  }
  try {
    check_printable("optimizer's name", info.optimizer);
    check_info(info);
  } catch (const ValueError& error) {
    refuse(reader, error.what());
  }
  return info;
}

/// From few reflection vectors the dense form of CWY makes N x N numbers, more than a file of their size may
/// ask for. Such a cell is computed in its factored form, which gives the same outputs up to rounding.
/// Everything else that a load allocates is a small multiple of the parameters.
class BoundedForms {
 public:
  explicit BoundedForms(double allowed) : allowed_(allowed) {}

  /// `copies`: how often a model has these layers; both directions have theirs.
  void bound(std::vector<LayerOptions>& layers, double copies) {
    for (LayerOptions& layer : layers) {
      std::visit(
          [&]<class Options>(Options& chosen) {
            if constexpr (std::is_same_v<Options, OrthogonalCell>) bound(chosen, copies);
            if constexpr (requires { chosen.layers; })
              bound(chosen.layers, std::is_same_v<Options, Bidirectional> ? 2 * copies : copies);
          },
          layer);
    }
  }

 private:
  void bound(OrthogonalCell& cell, double copies) {
    auto* cwy = std::get_if<Cwy>(&cell.transition);
    if (cwy == nullptr) return;
    if (cwy->form == ReflectionForm::factored || cwy->form == ReflectionForm::sequential) return;
    const auto n = static_cast<double>(cell.hidden_size);
    numbers_ += copies * n * n;
    if (numbers_ > allowed_) cwy->form = ReflectionForm::factored;
  }

  double allowed_;
  double numbers_ = 0;
};

/// Numbers that all dense forms of such a model may have.
template <class Options>
double largest_forms(const Options& options) {
  constexpr double always_allowed = 8192.0 * 8192.0;  // 256 MiB of floats
  constexpr double for_each_parameter = 16;
  return always_allowed + for_each_parameter * static_cast<double>(parameter_layout<float>(options).count());
}

ModelOptions with_bounded_forms(ModelOptions options) {
  BoundedForms(largest_forms(options)).bound(options.cells, 1);
  return options;
}

EncoderDecoderOptions with_bounded_forms(EncoderDecoderOptions options) {
  BoundedForms forms(largest_forms(options));
  forms.bound(options.encoder, 1);
  forms.bound(options.decoder, 1);
  return options;
}

/// The options of a model for a file that can be read again. Throws ValueError.
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

}  // namespace

void save_model(const std::filesystem::path& file, const Model<float>& model) {
  const FaultDomain::Scope scope(model.faults());
  Hdf5Writer writer;
  write_model(writer, model.parameters(), Json{{"model", checked_options(model)}}, "");
  writer.commit(file);
}

void save_checkpoint(const std::filesystem::path& file, Trainer& trainer) {
  save_checkpoint(std::span(&file, 1), trainer);
}

void save_checkpoint(std::span<const std::filesystem::path> files, Trainer& trainer) {
  Hdf5Writer writer;
  write_checkpoint(writer, trainer);
  for (const std::filesystem::path& file : files) writer.commit(file);
}

void write_checkpoint(Hdf5Writer& writer, Trainer& trainer) {
  trainer.synchronize();
  const FaultDomain::Scope scope(trainer.model().faults());
  const Task& task = trainer.task();
  Json training = json_object(trainer.options());
  training.update(json_object(TaskSource{.batch = task.batch_size(), .seed = task.seed()}));
  Json config{{"model", checked_options(trainer.model())},
              {"task", parse_json(task.config())},
              {"training", training}};
  const std::vector<TaskPart> parts = task.parts();
  for (const TaskPart& part : parts) config["parts"].push_back({{"name", part.name}});
  // What could not be read again is refused now, not when the training is to go on.
  ModelFileInfo read_back;
  read_back.library_version = version();
  read_back.task_name = task.name();
  read_back.permutation.reserve(task.input_order().shape());
  copy<std::int32_t>(task.input_order(), read_back.permutation);
  read_config(config.dump(), format_version, read_back);
  check_names(parts);
  // Making a tokenizer takes longer than the rest of a save, so equal parts are tried once.
  read_back.parts = parts == trainer.readable_parts_ ? std::vector<TaskPart>() : parts;
  check_info(read_back);
  trainer.readable_parts_ = parts;
  const ParameterSet<float>& parameters = trainer.model().parameters();
  try {
    write_model(writer, parameters, config, task.name());
    write_training(writer, parameters, trainer.optimizer(),
                   {.step = trainer.steps(),
                    .seed = task.seed(),
                    .best = trainer.best(),
                    .input_order = task.input_order(),
                    .parts = parts});
  } catch (const NotFinite& error) {
    trainer.throw_diverged(trainer.steps(), error.what());
  }
}

ModelFileInfo read_model_info(const std::filesystem::path& file) { return info_of(Hdf5Reader(file)); }

namespace {

/// A model with those of the file's options that are `Options`, prepared.
template <class Made, class Options>
std::unique_ptr<Made> loaded(const Hdf5Reader& reader, const Options& options, const Execution& execution) {
  try {
    // Sizes are compared before memory of these sizes is taken.
    expect_parameters(reader, "parameters", parameter_layout<float>(options));
    auto model = std::make_unique<Made>(execution, with_bounded_forms(options), Undrawn{});
    fill_on_host(model->parameters().values().view(), [&](TensorView<float> values) {
      read_parameters(reader, "parameters", model->parameters(), values);
    });
    model->prepare();
    model->synchronize();  // a GPU says only then that the parameters are none
    return model;
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    refuse(reader, error.what());
  }
}

/// The kinds of models in messages.
std::string kind_of(const ModelOptions&) { return "layers that read one sequence, for predict"; }
std::string kind_of(const EncoderDecoderOptions&) { return "an encoder and a decoder, for translate"; }
std::string kind_of(const OwnModelOptions& options) {
  return fmt::format("one of the kind '{}'", options.kind);
}
std::string kind_of(const AnyModelOptions& options) {
  return std::visit([](const auto& chosen) { return kind_of(chosen); }, options);
}

std::string unknown_kind(const OwnModelOptions& options) {
  return fmt::format("its model is {}, which orthornn does not know; use it with the program that made it",
                     kind_of(options));
}

/// The options as a file has them.
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

/// `loaded` where the file has a model of these options; throws FileError, which names both kinds, elsewhere.
template <class Made, class Options>
std::unique_ptr<Made> loaded_as(const std::filesystem::path& file, const Execution& execution,
                                ModelFileInfo* info) {
  const Hdf5Reader reader(file);
  ModelFileInfo found = info_of(reader);
  const auto* options = std::get_if<Options>(&found.model);
  if (options == nullptr) {
    if (const auto* own = std::get_if<OwnModelOptions>(&found.model)) refuse(reader, unknown_kind(*own));
    refuse(reader, fmt::format("its model is {}; expected {}", kind_of(found.model), kind_of(Options{})));
  }
  auto model = loaded<Made>(reader, *options, execution);
  if (info) *info = std::move(found);
  return model;
}

}  // namespace

std::unique_ptr<Model<float>> load_any_model(const std::filesystem::path& file, const Execution& execution,
                                             ModelFileInfo* info) {
  const Hdf5Reader reader(file);
  ModelFileInfo found = info_of(reader);
  auto model = std::visit(
      [&]<class Options>(const Options& options) -> std::unique_ptr<Model<float>> {
        if constexpr (std::is_same_v<Options, OwnModelOptions>) {
          refuse(reader, unknown_kind(options));
        } else {
          using Made = std::conditional_t<std::is_same_v<Options, ModelOptions>, SequenceModel<float>,
                                          EncoderDecoder<float>>;
          return loaded<Made>(reader, options, execution);
        }
      },
      found.model);
  if (info) *info = std::move(found);
  return model;
}

std::unique_ptr<SequenceModel<float>> load_model(const std::filesystem::path& file,
                                                 const Execution& execution, ModelFileInfo* info) {
  return loaded_as<SequenceModel<float>, ModelOptions>(file, execution, info);
}

std::unique_ptr<EncoderDecoder<float>> load_encoder_decoder(const std::filesystem::path& file,
                                                            const Execution& execution, ModelFileInfo* info) {
  return loaded_as<EncoderDecoder<float>, EncoderDecoderOptions>(file, execution, info);
}

namespace {

/// `what` is the same in the file, in whatever order the members stand. Throws FileError.
void require_equal(const std::filesystem::path& file, const char* what, const char* ours, const Json& there,
                   const Json& here) {
  if (nlohmann::json(there) == nlohmann::json(here)) return;
  throw FileError(fmt::format("{} holds another {} than {}: {}", file.string(), what, ours,
                              first_difference(there.dump(), here.dump())));
}

void check_same_model(const std::filesystem::path& file, const AnyModelOptions& found, const char* ours,
                      const Model<float>& model) {
  const Json options = checked_options(model);
  const AnyModelOptions here = read_model_options(options, format_version);
  if (kind_of(found) != kind_of(here)) {
    const auto* own = std::get_if<OwnModelOptions>(&found);
    throw FileError(fmt::format("{} holds another model than {}: {}; expected {}", file.string(), ours,
                                own != nullptr && !std::holds_alternative<OwnModelOptions>(here)
                                    ? unknown_kind(*own)
                                    : "its model is " + kind_of(found),
                                kind_of(here)));
  }
  require_equal(file, "model", ours, json_of(found), options);
}

/// Throws FileError unless the file holds a training that the trainer can go on with.
void check_same_training(const std::filesystem::path& file, const ModelFileInfo& info,
                         const Trainer& trainer) {
  const Task& task = trainer.task();
  if (!info.steps) {
    throw FileError(
        fmt::format("{} holds a model without its training state; it cannot be resumed", file.string()));
  }
  constexpr const char* ours = "this training";
  require_equal(file, "task", ours, parse_json(info.task_config), parse_json(task.config()));
  require_equal(file, "stream of data", ours, {{"batch", info.batch}, {"seed", info.seed}},
                {{"batch", task.batch_size()}, {"seed", task.seed()}});
  const auto order = task.input_order();
  if (!std::equal(info.permutation.begin(), info.permutation.end(), order.begin(), order.end())) {
    throw FileError(fmt::format("{} holds another permutation than this training", file.string()));
  }
  const bool compared = !info.parts.empty() || !task.may_lack_parts();
  if (compared && info.parts != task.parts()) {
    throw FileError(fmt::format("{} was trained with another vocabulary or other data than this training has",
                                file.string()));
  }
  // Last: where the data differ, so do the numbers of symbols.
  check_same_model(file, info.model, ours, trainer.model());
  if (info.optimizer != trainer.optimizer().name()) {
    throw FileError(fmt::format("{} was trained with {}, the training uses {}", file.string(), info.optimizer,
                                trainer.optimizer().name()));
  }
}

}  // namespace

void load_parameters(const std::filesystem::path& file, Model<float>& model, ModelFileInfo* info) {
  const Hdf5Reader reader(file);
  ModelFileInfo found = info_of(reader);
  check_same_model(file, found.model, "this program's", model);
  const FaultDomain::Scope scope(model.faults());
  const ParameterSet<float>& layout = model.parameters();
  layout.check_allocated();
  expect_only(reader, "parameters", layout);
  Tensor<float> values(layout.values().shape());
  read_parameters(reader, "parameters", layout, values);
  const Tensor<float> before = layout.values().copy(model.device());
  copy<float>(values, model.parameters().values());
  try {
    model.prepare();
    model.synchronize();
  } catch (const Error& error) {
    copy<float>(before, model.parameters().values());
    refuse(reader, error.what());
  }
  if (info) *info = std::move(found);
}

ModelFileInfo check_resumable(const std::filesystem::path& file, const Trainer& trainer) {
  ModelFileInfo info = read_model_info(file);
  check_same_training(file, info, trainer);
  return info;
}

void restore(const std::filesystem::path& file, Trainer& trainer) {
  const Hdf5Reader reader(file);
  const ModelFileInfo info = info_of(reader);
  check_same_training(file, info, trainer);
  // Everything is read before anything is changed: a damaged file leaves the trainer as it was.
  const ParameterSet<float>& layout = trainer.model().parameters();
  std::vector<std::pair<TensorView<float>, Tensor<float>>> changes;
  const auto read = [&](const std::string& prefix, TensorView<float> to) {
    expect_only(reader, prefix, layout);
    changes.emplace_back(to, Tensor<float>(to.shape()));
    read_parameters(reader, prefix, layout, changes.back().second);
  };
  read("parameters", trainer.model().parameters().values());
  for (const auto& [name, moment] : trainer.optimizer().state()) read("optimizer/" + name, moment);
  const std::int64_t optimizer_steps = count_attribute(reader, "optimizer", "steps");
  for (const auto& [to, from] : changes) copy<float>(from, to);
  trainer.optimizer().set_steps(optimizer_steps);
  trainer.set_steps(*info.steps);
  trainer.set_best(info.best);
}

void convert_model(const std::filesystem::path& from, const std::filesystem::path& to) {
  Hdf5Writer writer;
  try {
    const Hdf5Reader reader(from);
    const ModelFileInfo info = info_of(reader);
    ParameterSet<float> parameters =
        std::visit([](const auto& options) { return parameter_layout<float>(options); }, info.model);
    // Sizes are compared before memory of these sizes is taken.
    expect_parameters(reader, "parameters", parameters);
    parameters.allocate(Device::cpu());
    read_parameters(reader, "parameters", parameters, parameters.values());
    Json config = parse_json(info.config);
    config["model"] = json_of(info.model);
    write_model(writer, parameters, config, info.task_name);
    if (info.steps) {
      const auto optimizer = make_optimizer(info.trainer.optimizer, parameters);
      if (optimizer->name() != info.optimizer) {
        refuse(reader, fmt::format("the attribute 'name' of 'optimizer' is '{}', its config has {}",
                                   info.optimizer, optimizer->name()));
      }
      for (const auto& [name, moment] : optimizer->state()) {
        expect_parameters(reader, "optimizer/" + name, parameters);
        read_parameters(reader, "optimizer/" + name, parameters, moment);
      }
      optimizer->set_steps(count_attribute(reader, "optimizer", "steps"));
      write_training(writer, parameters, *optimizer,
                     {.step = *info.steps,
                      .seed = info.seed,
                      .best = info.best,
                      .input_order = info.permutation,
                      .parts = info.parts});
    }
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", from.string(), error.what()));
  }
  writer.commit(to);
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
