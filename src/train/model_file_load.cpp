#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/fill_on_host.hpp"
#include "train/model_file_parts.hpp"

namespace orthornn {
namespace {

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
    refuse(reader, "{}", error.what());
  }
}

/// `loaded` where the file has a model of these options; throws FileError, which names both kinds, elsewhere.
template <class Made, class Options>
std::unique_ptr<Made> loaded_as(const std::filesystem::path& file, const Execution& execution,
                                ModelFileInfo* info) {
  const Hdf5Reader reader(file);
  ModelFileInfo found = info_of(reader);
  const auto* options = std::get_if<Options>(&found.model);
  if (options == nullptr) {
    if (const auto* own = std::get_if<OwnModelOptions>(&found.model))
      refuse(reader, "{}", unknown_kind(*own));
    refuse(reader, "its model is {}; expected {}", kind_of(found.model), kind_of(Options{}));
  }
  auto model = loaded<Made>(reader, *options, execution);
  if (info) *info = std::move(found);
  return model;
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
      refuse(reader,
             "it has '{}/{}', of which this model knows nothing; expected the parameters of this model "
             "alone",
             group, name);
    }
  }
}

/// Reads numbers of a model. Throws FileError for one that is not finite.
void read_numbers(const Hdf5Reader& reader, const std::string& path, TensorView<float> to) {
  reader.read_into<float>(path, to);
  for (const float x : to) {
    if (std::isfinite(x)) continue;
    refuse(reader, "dataset '{}' holds a value that is not finite", path);
  }
}

/// Gives the model these parameters and prepares it. Throws FileError where they are not allowed; the model
/// has those of before then.
void set_parameters(const Hdf5Reader& reader, Model<float>& model, ConstTensorView<float> values) {
  const Tensor<float> before = model.parameters().values().copy(model.device());
  copy<float>(values, model.parameters().values());
  try {
    model.prepare();
    model.synchronize();
  } catch (const Error& error) {
    copy<float>(before, model.parameters().values());
    refuse(reader, "{}", error.what());
  }
}

/// "cells/0/hidden_size is 8 there and 9 here": the first option in which two descriptions differ.
std::string first_difference(const Json& there, const Json& here) {
  const Json a = there.flatten(), b = here.flatten();
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

/// `what` is the same in the file, in whatever order the members stand. Throws FileError.
void require_equal(const std::filesystem::path& file, const char* what, const char* ours, const Json& there,
                   const Json& here) {
  if (nlohmann::json(there) == nlohmann::json(here)) return;
  throw MismatchError(file.string(),
                      fmt::format("holds another {} than {}: {}", what, ours, first_difference(there, here)));
}

void check_same_model(const std::filesystem::path& file, const AnyModelOptions& found, const char* ours,
                      const Model<float>& model) {
  const Json options = checked_options(model);
  const AnyModelOptions here = read_model_options(options, format_version);
  if (kind_of(found) != kind_of(here)) {
    const auto* own = std::get_if<OwnModelOptions>(&found);
    throw MismatchError(file.string(),
                        fmt::format("holds another model than {}: {}; expected {}", ours,
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
    throw MismatchError(file.string(), "holds a model without its training state; it cannot be resumed");
  }
  constexpr const char* ours = "this training";
  require_equal(file, "task", ours, parse_json(info.task_config), parse_json(task.config()));
  const auto stream = [](Index batch, const TrainerOptions& options, std::uint64_t seed) {
    return Json{{"batch", batch}, {"accumulate", options.accumulate}, {"seed", seed}};
  };
  require_equal(file, "stream of data", ours, stream(info.batch, info.trainer, info.seed),
                stream(task.batch_size(), trainer.options(), task.seed()));
  const auto order = task.input_order();
  if (!std::equal(info.permutation.begin(), info.permutation.end(), order.begin(), order.end())) {
    throw MismatchError(file.string(), "holds another permutation than this training");
  }
  const bool compared = !info.parts.empty() || !task.may_lack_parts();
  if (compared && info.parts != task.parts()) {
    throw MismatchError(file.string(),
                        "was trained with another vocabulary or other data than this training has");
  }
  // Last: where the data differ, so do the numbers of symbols.
  check_same_model(file, info.model, ours, trainer.model());
  if (info.optimizer != trainer.optimizer().name()) {
    throw MismatchError(file.string(), fmt::format("was trained with {}, the training uses {}",
                                                   info.optimizer, trainer.optimizer().name()));
  }
}

/// The states in which the next piece of `batch` sequences starts; none where the file has none.
std::vector<Tensor<float>> read_carried(const Hdf5Reader& reader, const Model<float>& model, Index batch) {
  std::vector<Tensor<float>> states;
  if (!reader.has(carried_path(0))) return states;
  for (const Shape& shape : model.state_shapes(batch)) {
    const std::string path = carried_path(states.size());
    reader.expect<float>(path, shape);  // before memory of this size is taken
    states.emplace_back(shape);
    read_numbers(reader, path, states.back());
  }
  return states;
}

}  // namespace

void expect_parameters(const Hdf5Reader& reader, const std::string& prefix,
                       const ParameterSet<float>& layout) {
  // Two names may stand for one dataset, so each may fit where all do not.
  const std::size_t bytes = Shape{layout.count()}.bytes(sizeof(float));
  if (bytes > reader.file_size()) {
    refuse(reader, "its config describes parameters of {} bytes in '{}'; expected fewer than the file's {}",
           bytes, prefix, reader.file_size());
  }
  for (const Parameter& parameter : layout.list()) {
    reader.expect<float>(prefix + "/" + parameter.name, parameter.shape);
  }
}

void read_parameters(const Hdf5Reader& reader, const std::string& prefix,
                     const ParameterSet<float>& parameters, TensorView<float> flat) {
  for (const Parameter& parameter : parameters.list()) {
    const std::string path = prefix + "/" + parameter.name;
    const TensorView<float> window(flat.data() + parameter.offset, parameter.shape, flat.device());
    read_numbers(reader, path, window);
  }
}

std::unique_ptr<Model<float>> load_any_model(const std::filesystem::path& file, const Execution& execution,
                                             ModelFileInfo* info) {
  const Hdf5Reader reader(file);
  ModelFileInfo found = info_of(reader);
  auto model = std::visit(
      [&]<class Options>(const Options& options) -> std::unique_ptr<Model<float>> {
        if constexpr (std::is_same_v<Options, OwnModelOptions>) {
          refuse(reader, "{}", unknown_kind(options));
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
  set_parameters(reader, model, values);
  if (info) *info = std::move(found);
}

TakenParameters take_parameters(const std::filesystem::path& file, Model<float>& model) {
  const Hdf5Reader reader(file);
  info_of(reader);  // it is a model
  const FaultDomain::Scope scope(model.faults());
  const ParameterSet<float>& layout = model.parameters();
  layout.check_allocated();
  Tensor<float> values = layout.values().copy(Device::cpu());
  TakenParameters result;
  for (const Parameter& parameter : layout.list()) {
    const std::string path = "parameters/" + parameter.name;
    const auto there = reader.has(path) ? std::optional(reader.shape(path)) : std::nullopt;
    if (there != parameter.shape) {
      result.untaken.push_back({parameter.name, parameter.shape, there});
      continue;
    }
    read_numbers(reader, path, {values.data() + parameter.offset, parameter.shape});
    result.taken.push_back(parameter.name);
  }
  if (result.taken.empty()) {
    const UntakenParameter& first = result.untaken.front();
    refuse(reader, "none of its parameters has name and shape of one of this model, whose '{}' is {}{}",
           first.name, to_string(first.shape),
           first.shape_in_file ? fmt::format(", and {} there", to_string(*first.shape_in_file)) : "");
  }
  set_parameters(reader, model, values);
  return result;
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
  const std::vector<Tensor<float>> carried = read_carried(reader, trainer.model(), info.batch);
  for (const auto& [to, from] : changes) copy<float>(from, to);
  trainer.model().set_carried(carried);
  trainer.optimizer().set_steps(optimizer_steps);
  trainer.set_steps(*info.steps);
  trainer.set_best(info.best);
}

}  // namespace orthornn
