#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands/program.hpp"

namespace orthornn::program {
namespace {

struct InspectSettings {
  std::string model;
  bool json = false;
};

int inspect(const InspectSettings& settings) {
  ModelFileInfo info;
  const auto model = load_model(settings.model, Device::cpu(), &info);
  const double error = model->orthogonality_error();
  const ParameterSet<float>& parameters = model->parameters();

  if (settings.json) {
    nlohmann::ordered_json json = {{"model", settings.model},
                                   {"format_version", info.format_version},
                                   {"library_version", info.library_version},
                                   {"task", info.task_name},
                                   {"config", nlohmann::ordered_json::parse(info.config)},
                                   {"parameter_count", parameters.count()},
                                   {"orthogonality_error", error}};
    for (const Parameter& parameter : parameters.list()) {
      nlohmann::ordered_json shape = nlohmann::ordered_json::array();
      for (int i = 0; i < parameter.shape.rank(); ++i) shape.push_back(parameter.shape[i]);
      json["parameters"][parameter.name] = shape;
    }
    if (info.steps)
      json["training"] = {{"step", *info.steps}, {"seed", info.seed}, {"optimizer", info.optimizer}};
    if (info.best) {
      json["training"]["best_metric"] = info.best->loss;
      json["training"]["best_step"] = info.best->step;
    }
    fmt::print("{}\n", json.dump(2));
    return success;
  }

  fmt::print("{}: orthornn model, format version {}, written by orthornn {}\n", settings.model,
             info.format_version, info.library_version);
  fmt::print("task      {}\n", info.task_name.empty() ? "none" : info.task_config);
  for (Index i = 0; i < model->cell_count(); ++i) {
    const auto& cell = model->cell(i);
    fmt::print("cell {}    {}, {} form; hidden size {}, input size {}, activation {}\n", i,
               name_of(cell.options().transition), cell.transition().form(), cell.options().hidden_size,
               cell.input_size(), name_of(cell.options().activation));
  }
  for (const Parameter& parameter : parameters.list()) {
    fmt::print("  {:32} {}{}\n", parameter.name, to_string(parameter.shape),
               parameter.kind == ParameterKind::orthogonal ? "  orthogonal" : "");
  }
  fmt::print("parameters {} in all\n", parameters.count());
  fmt::print("|I - Q'Q|  {:.1e}, the largest entry\n", error);
  if (info.steps) {
    fmt::print("training   {} steps with {}, batch {}, seed {}", *info.steps, info.optimizer, info.batch,
               info.seed);
    if (info.best) fmt::print("; best held-out loss {:.4g} at step {}", info.best->loss, info.best->step);
    fmt::print("\n");
  }
  return success;
}

}  // namespace

void add_inspect(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("inspect", "What is in a model file");
  const auto settings = std::make_shared<InspectSettings>();
  command->add_option("model", settings->model, "Model file")->required();
  command->add_flag("--json", settings->json, "One JSON object instead of a text");
  command->callback([&chosen, settings] { chosen = [settings] { return inspect(*settings); }; });
}

}  // namespace orthornn::program
