#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "train/model_file_parts.hpp"

namespace orthornn {
namespace {

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

}  // namespace orthornn
