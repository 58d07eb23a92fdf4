#include "orthornn/train/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "orthornn/version.hpp"
#include "train/model_file_parts.hpp"

namespace orthornn {
namespace {

/// A file would hold a number that is not finite.
class NotFinite : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Throws NotFinite: a save must not replace a sound file by one that cannot be loaded or resumed.
void require_finite(const std::string& path, const TensorView<const float>& values) {
  if (std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) return;
  throw NotFinite(fmt::format("'{}' holds a value that is not finite, so nothing is saved", path));
}

/// Writes a flat buffer of the set's layout, on any device. Throws NotFinite.
void write_finite_parameters(Hdf5Writer& writer, const std::string& prefix,
                             const ParameterSet<float>& parameters, TensorView<const float> flat) {
  parameters.check_allocated();
  Tensor<float> values;
  values.reserve(flat.shape());
  copy<float>(flat, values);
  for (const Parameter& parameter : parameters.list()) {
    const std::string path = prefix + "/" + parameter.name;
    const TensorView<const float> window(values.data() + parameter.offset, parameter.shape);
    require_finite(path, window);
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
  std::span<const Tensor<float>> carried;
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
  for (std::size_t i = 0; i < training.carried.size(); ++i) {
    const Tensor<float> state = training.carried[i].copy(Device::cpu());
    const std::string path = carried_path(i);
    require_finite(path, state);
    writer.dataset(path, state);
  }
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
                    .parts = parts,
                    .carried = trainer.model().carried()});
  } catch (const NotFinite& error) {
    trainer.throw_diverged(trainer.steps(), error.what());
  }
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
        refuse(reader, "the attribute 'name' of 'optimizer' is '{}', its config has {}", info.optimizer,
               optimizer->name());
      }
      for (const auto& [name, moment] : optimizer->state()) {
        expect_parameters(reader, "optimizer/" + name, parameters);
        read_parameters(reader, "optimizer/" + name, parameters, moment);
      }
      optimizer->set_steps(count_attribute(reader, "optimizer", "steps"));
      std::vector<Tensor<float>> carried;
      while (reader.has(carried_path(carried.size())))
        carried.push_back(reader.read<float>(carried_path(carried.size())));
      write_training(writer, parameters, *optimizer,
                     {.step = *info.steps,
                      .seed = info.seed,
                      .best = info.best,
                      .input_order = info.permutation,
                      .parts = info.parts,
                      .carried = carried});
    }
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(fmt::format("{}: {}", from.string(), error.what()));
  }
  writer.commit(to);
}

}  // namespace orthornn
