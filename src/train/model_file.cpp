#include "orthornn/train/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/fill_on_host.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/version.hpp"

namespace orthornn {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format_name = "orthornn-model";
constexpr std::int64_t format_version = 1;

/// Writes each parameter's part of a flat buffer as PREFIX/MODULE/NAME.
void write_parameters(Hdf5Writer& writer, const std::string& prefix, const ParameterSet<float>& parameters,
                      TensorView<const float> flat) {
  for (const Parameter& parameter : parameters.list()) {
    writer.dataset(prefix + "/" + parameter.name,
                   TensorView<const float>(flat.data() + parameter.offset, parameter.shape, flat.device()));
  }
}

/// Into the host memory of a flat buffer.
void read_parameters(const Hdf5Reader& reader, const std::string& prefix,
                     const ParameterSet<float>& parameters, TensorView<float> flat) {
  for (const Parameter& parameter : parameters.list()) {
    const std::string path = prefix + "/" + parameter.name;
    if (!reader.has(path)) {
      throw FileError(fmt::format("{}: no dataset '{}'; expected it with shape {}", reader.file().string(),
                                  path, to_string(parameter.shape)));
    }
    const TensorView<float> window(flat.data() + parameter.offset, parameter.shape, flat.device());
    try {
      reader.read_into<float>(path, window);
    } catch (const ShapeError& error) {
      throw FileError(fmt::format("{}: {}", reader.file().string(), error.what()));
    }
    for (const float x : window) {
      if (std::isfinite(x)) continue;
      throw FileError(
          fmt::format("{}: dataset '{}' holds a value that is not finite", reader.file().string(), path));
    }
  }
}

/// A save must not replace a sound model by one that could not be loaded. `values` is the set's flat buffer
/// in host memory.
void check_finite(const ParameterSet<float>& parameters, const Tensor<float>& values) {
  for (const Parameter& parameter : parameters.list()) {
    const float* first = values.data() + parameter.offset;
    if (std::all_of(first, first + parameter.shape.count(), [](float x) { return std::isfinite(x); }))
      continue;
    throw ValueError(
        fmt::format("'{}' holds a value that is not finite, so the model is not saved", parameter.name));
  }
}

void write_model(Hdf5Writer& writer, const SequenceModel<float>& model, const Json& config,
                 const std::string& task_name) {
  const Tensor<float> values = model.parameters().values().copy(Device::cpu());
  check_finite(model.parameters(), values);
  writer.attribute("/", "format", format_name);
  writer.attribute("/", "format_version", format_version);
  writer.attribute("/", "library_version", version());
  writer.attribute("/", "task", task_name);
  writer.attribute("/", "config", config.dump());
  write_parameters(writer, "parameters", model.parameters(), values);
}

/// "cells/0/hidden_size is 8 there and 9 here": the first option in which two descriptions differ.
std::string first_difference(const std::string& there, const std::string& here) {
  const Json a = Json::parse(there).flatten(), b = Json::parse(here).flatten();
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

ModelFileInfo info_of(const Hdf5Reader& reader) {
  check_format(reader);
  ModelFileInfo info;
  info.format_version = reader.int_attribute("/", "format_version");
  info.library_version = reader.string_attribute("/", "library_version");
  info.task_name = reader.string_attribute("/", "task");
  info.config = reader.string_attribute("/", "config");
  try {
    const Json config = Json::parse(info.config);
    info.model = model_options_from_json(config.at("model").dump());
    if (config.contains("task")) info.task_config = config.at("task").dump();
    if (config.contains("training")) {
      info.trainer = trainer_options_from_json(config.at("training").dump());
      info.batch = config.at("training").at("batch");
      info.seed = config.at("training").at("seed");
    }
  } catch (const Json::exception& error) {
    throw FileError(fmt::format("{}: the attribute 'config' is not what orthornn writes: {}",
                                reader.file().string(), error.what()));
  } catch (const ValueError& error) {
    throw FileError(fmt::format("{}: the attribute 'config' is not what orthornn writes: {}",
                                reader.file().string(), error.what()));
  }
  if (reader.has("training")) {
    info.steps = reader.int_attribute("training", "step");
    if (reader.has_attribute("training", "best_metric")) {
      info.best = BestResult{reader.double_attribute("training", "best_metric"),
                             reader.int_attribute("training", "best_step")};
    }
    info.optimizer = reader.string_attribute("optimizer", "name");
  }
  if (reader.has("task/permutation")) info.permutation = reader.read<std::int32_t>("task/permutation");
  return info;
}

}  // namespace

void save_model(const std::filesystem::path& file, const SequenceModel<float>& model) {
  Hdf5Writer writer;
  write_model(writer, model, Json{{"model", Json::parse(to_json(model.options()))}}, "");
  writer.commit(file);
}

void save_checkpoint(const std::filesystem::path& file, Trainer& trainer) {
  trainer.synchronize();
  const Task& task = trainer.task();
  Json training = Json::parse(to_json(trainer.options()));
  training["batch"] = task.batch_size();
  training["seed"] = task.seed();
  const Json config{{"model", Json::parse(to_json(trainer.model().options()))},
                    {"task", Json::parse(task.config())},
                    {"training", training}};
  Hdf5Writer writer;
  write_model(writer, trainer.model(), config, task.name());

  writer.group("optimizer");
  writer.attribute("optimizer", "name", trainer.optimizer().name());
  writer.attribute("optimizer", "steps", trainer.optimizer().steps());
  for (const auto& [name, moment] : trainer.optimizer().state()) {
    write_parameters(writer, "optimizer/" + name, trainer.model().parameters(), moment);
  }
  writer.group("training");
  writer.attribute("training", "step", trainer.steps());
  writer.attribute("training", "seed", static_cast<std::int64_t>(task.seed()));
  if (trainer.best()) {
    writer.attribute("training", "best_metric", trainer.best()->loss);
    writer.attribute("training", "best_step", trainer.best()->step);
  }
  writer.group("task");
  if (!task.input_order().empty()) writer.dataset("task/permutation", task.input_order());
  writer.commit(file);
}

ModelFileInfo read_model_info(const std::filesystem::path& file) { return info_of(Hdf5Reader(file)); }

std::unique_ptr<SequenceModel<float>> load_model(const std::filesystem::path& file,
                                                 const Execution& execution, ModelFileInfo* info) {
  const Hdf5Reader reader(file);
  ModelFileInfo found = info_of(reader);
  try {
    auto model = std::make_unique<SequenceModel<float>>(execution, found.model);
    fill_on_host(model->parameters().values().view(), [&](TensorView<float> values) {
      read_parameters(reader, "parameters", model->parameters(), values);
    });
    model->prepare();
    synchronize(model->device());  // a GPU says only then that the parameters are none
    if (info) *info = std::move(found);
    return model;
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

void restore(const std::filesystem::path& file, Trainer& trainer) {
  const Hdf5Reader reader(file);
  const ModelFileInfo info = info_of(reader);
  const Task& task = trainer.task();
  if (!info.steps) {
    throw FileError(
        fmt::format("{} holds a model without its training state; it cannot be resumed", file.string()));
  }
  const auto require_equal = [&](const char* what, const Json& there, const Json& here) {
    if (there == here) return;
    throw FileError(fmt::format("{} holds another {} than this training: {}", file.string(), what,
                                first_difference(there.dump(), here.dump())));
  };
  require_equal("model", Json::parse(to_json(info.model)), Json::parse(to_json(trainer.model().options())));
  require_equal("task", Json::parse(info.task_config), Json::parse(task.config()));
  require_equal("stream of data", {{"batch", info.batch}, {"seed", info.seed}},
                {{"batch", task.batch_size()}, {"seed", task.seed()}});
  const auto order = task.input_order();
  if (!std::equal(info.permutation.begin(), info.permutation.end(), order.begin(), order.end())) {
    throw FileError(fmt::format("{} holds another permutation than this training", file.string()));
  }
  if (info.optimizer != trainer.optimizer().name()) {
    throw FileError(fmt::format("{} was trained with {}, the training uses {}", file.string(), info.optimizer,
                                trainer.optimizer().name()));
  }

  // Everything is read before anything is changed: a damaged file leaves the trainer as it was.
  const ParameterSet<float>& layout = trainer.model().parameters();
  std::vector<std::pair<TensorView<float>, Tensor<float>>> changes;
  const auto read = [&](const std::string& prefix, TensorView<float> to) {
    changes.emplace_back(to, Tensor<float>(to.shape()));
    read_parameters(reader, prefix, layout, changes.back().second);
  };
  read("parameters", trainer.model().parameters().values());
  for (const auto& [name, moment] : trainer.optimizer().state()) read("optimizer/" + name, moment);
  const std::int64_t optimizer_steps = reader.int_attribute("optimizer", "steps");
  if (optimizer_steps < 0 || *info.steps < 0) {
    throw FileError(fmt::format("{} holds a negative number of steps", file.string()));
  }
  for (const auto& [to, from] : changes) copy<float>(from, to);
  trainer.optimizer().set_steps(optimizer_steps);
  trainer.set_steps(*info.steps);
  if (info.best) trainer.set_best(*info.best);
}

}  // namespace orthornn
