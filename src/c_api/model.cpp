// Model files: load, make, describe, save.

#include "c_api/model.hpp"

#include <variant>

#include "core/fields_json.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/tasks/data_task.hpp"
#include "train/model_file_parts.hpp"
#include "train/predictions.hpp"

namespace orthornn::c_api {
namespace {

/// Symbols that a model reads; 0 for one that reads vectors.
Index symbols_of(const ModelOptions& options) {
  if (const auto* one_hot = std::get_if<OneHot>(&options.input)) return one_hot->symbols;
  if (const auto* embedding = std::get_if<TokenEmbedding>(&options.input)) return embedding->tokens;
  return 0;
}

/// The states of all layers.
Json states_of(const SequenceModel<float>& model) {
  Json states = Json::array();
  for (Index layer = 0; layer < model.cell_count(); ++layer) {
    const Layer<float>& cell = model.cell(layer);
    for (Index i = 0; i < cell.state_count(); ++i) {
      const Shape shape = cell.state_shape(i, 1);
      states.push_back({{"name", cell.state_name(i)},
                        {"layer", layer},
                        {"shape", std::vector<Index>(shape.begin() + 1, shape.end())}});
    }
  }
  return states;
}

void describe_sequences(orthornn_model& handle, Json& json) {
  const SequenceModel<float>& model = handle.sequence_model();
  const ModelOptions& options = model.options();
  const auto numbers = handle.caller_numbers();
  json["input"] = numbers ? "features" : "symbols";
  json["input_size"] = numbers ? *numbers : symbols_of(options);
  json["outputs"] = output_size_of(options.readout);
  json["every_step"] = answers_every_step(options.readout);
  json["loss"] = name_of(options.loss);
  json["states"] = states_of(model);
  json["causal"] = handle.is_causal();
  json["step_by_step"] = handle.runs_step_by_step();
  json["class_names"] = handle.task != nullptr ? handle.task->class_names() : std::vector<std::string>();
}

void describe_file(const ModelFileInfo& info, Json& json) {
  if (!info.task_config.empty())
    json["task"] = {{"name", info.task_name}, {"config", parse_json(info.task_config)}};
  if (info.steps) {
    json["steps"] = *info.steps;
    json["seed"] = info.seed;
    json["batch"] = info.batch;
  }
  if (info.best) json["best"] = {{"loss", info.best->loss}, {"step", info.best->step}};
  json["library"] = info.library_version;
}

Json description_of(orthornn_model& handle) {
  const bool reads_pairs = dynamic_cast<EncoderDecoder<float>*>(handle.model.get()) != nullptr;
  Json json = {{"kind", reads_pairs ? "encoder-decoder" : "sequence-model"},
               {"model", parse_json(handle.model->options_text())},
               {"parameters", Json::array()}};
  for (const Parameter& parameter : handle.model->parameters().list()) {
    json["parameters"].push_back(
        {{"name", parameter.name},
         {"shape", std::vector<Index>(parameter.shape.begin(), parameter.shape.end())}});
  }
  if (!reads_pairs) describe_sequences(handle, json);
  for (const char* name : {"task", "steps", "seed", "batch", "best"}) json[name] = nullptr;
  json["library"] = orthornn_version();
  if (handle.info) describe_file(*handle.info, json);
  return json;
}

Execution execution_of(const orthornn_device* device, std::int32_t precision) {
  return {device_of(device), precision_of(precision)};
}

/// Makes a model of some options.
std::unique_ptr<Model<float>> made(const Execution& execution, const AnyModelOptions& options,
                                   std::uint64_t seed) {
  if (const auto* sequences = std::get_if<ModelOptions>(&options))
    return std::make_unique<SequenceModel<float>>(execution, *sequences, seed);
  if (const auto* pairs = std::get_if<EncoderDecoderOptions>(&options))
    return std::make_unique<EncoderDecoder<float>>(execution, *pairs, seed);
  throw ValueError(unknown_kind(std::get<OwnModelOptions>(options)));
}

/// The parameter of a name, whose `count` numbers the caller has.
TensorView<float> parameter_of_name(orthornn_model& handle, const char* name, std::int64_t count) {
  ParameterSet<float>& parameters = handle.model->parameters();
  const TensorView<float> value = parameters.value(parameters.find(&not_null("name", name)));
  if (count != value.size()) {
    throw ArgumentError(fmt::format("count is {}, expected {} for the parameter {} of shape {}", count,
                                    value.size(), name, to_string(value.shape())));
  }
  return value;
}

}  // namespace
}  // namespace orthornn::c_api

using namespace orthornn;
using namespace orthornn::c_api;

SequenceModel<float>& orthornn_model::sequence_model() {
  if (auto* found = dynamic_cast<SequenceModel<float>*>(model.get())) return *found;
  throw ValueError("the model is an encoder-decoder; expected one that reads one sequence");
}

EncoderDecoder<float>& orthornn_model::encoder_decoder() {
  if (auto* found = dynamic_cast<EncoderDecoder<float>*>(model.get())) return *found;
  throw ValueError("the model reads one sequence; expected an encoder-decoder");
}

void orthornn_model::prepare() {
  if (!changed) return;
  model->prepare();
  translator.reset();
  changed = false;
}

ConstTensorView<std::int32_t> orthornn_model::order() const {
  if (!info) return {};
  return info->permutation;
}

bool orthornn_model::is_causal() {
  const SequenceModel<float>& sequences = sequence_model();
  for (Index layer = 0; layer < sequences.cell_count(); ++layer) {
    if (!sequences.cell(layer).is_causal()) return false;
  }
  return true;
}

std::optional<Index> orthornn_model::caller_numbers() {
  const std::optional<Index> numbers = numbers_of(sequence_model().options());
  const auto* data = dynamic_cast<const DataTask*>(task.get());
  return numbers && data != nullptr ? std::ssize(data->statistics().features.shift) : numbers;
}

orthornn_status orthornn_model_load(const char* path, const orthornn_device* device, int32_t precision,
                                    orthornn_model** model) {
  return guarded(device, [&] {
    not_null("path", path);
    const Execution execution = execution_of(device, precision);
    not_null("model", model) = nullptr;
    ModelFileInfo info;
    auto loaded = std::make_unique<orthornn_model>(load_any_model(path, execution, &info));
    loaded->task = task_of_model(info);
    loaded->info = std::move(info);
    *model = loaded.release();
  });
}

orthornn_status orthornn_model_create(const char* options, uint64_t seed, const orthornn_device* device,
                                      int32_t precision, orthornn_model** model) {
  return guarded(device, [&] {
    not_null("options", options);
    const Execution execution = execution_of(device, precision);
    not_null("model", model) = nullptr;
    const Json json = parse_json(options);
    auto handle =
        std::make_unique<orthornn_model>(made(execution, read_model_options(json, format_version), seed));
    handle->model->prepare();
    *model = handle.release();
  });
}

orthornn_status orthornn_layer_check(const char* options) {
  return guarded(false, [&] {
    LayerOptions layer;
    read_alternative(parse_json(&not_null("options", options)), layer);
  });
}

void orthornn_model_free(orthornn_model* model) {
  const CallersGpu gpu(is_on_gpu(model));
  delete model;
}

orthornn_status orthornn_model_save(orthornn_model* model, const char* path) {
  return with_model(model, [&](orthornn_model& handle) {
    handle.prepare();
    save_model(&not_null("path", path), *handle.model);
  });
}

orthornn_status orthornn_model_describe(orthornn_model* model, const char** json) {
  return with_model(model, [&](orthornn_model& handle) {
    not_null("json", json);
    if (handle.description.empty()) handle.description = json_text(description_of(handle), -1);
    *json = handle.description.c_str();
  });
}

orthornn_status orthornn_model_get_parameter(orthornn_model* model, const char* name, float* values,
                                             int64_t count) {
  return with_model(model, [&](orthornn_model& handle) {
    const TensorView<float> found = parameter_of_name(handle, name, count);
    copy<float>(found, view_of<float>("values", values, found.shape(), Device::cpu()));
  });
}

orthornn_status orthornn_model_set_parameter(orthornn_model* model, const char* name, const float* values,
                                             int64_t count) {
  return with_model(model, [&](orthornn_model& handle) {
    const TensorView<float> found = parameter_of_name(handle, name, count);
    copy<float>(view_of<const float>("values", values, found.shape(), Device::cpu()), found);
    handle.changed = true;
  });
}
