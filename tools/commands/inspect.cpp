#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "commands/any_model.hpp"
#include "commands/delta_figures.hpp"
#include "commands/machine.hpp"
#include "commands/model_figures.hpp"
#include "commands/output_file.hpp"
#include "commands/program.hpp"
#include "commands/task_data.hpp"
#include "core/checked_json.hpp"

namespace orthornn::program {
namespace {

struct InspectSettings {
  std::string model;
  /// Of the sequence along which DeltaProduct layers are followed; 0: the task's.
  Index length = 0;
  std::string data;
  std::string figures;
  bool overwrite = false;
  bool json = false;
  MachineOptions machine;
};

/// Operations that looking into a file may take, a second or two: those of Q of one CWY cell of hidden size
/// 2048.
constexpr double largest_work = 2048.0 * 2048 * 2048;

/// Whether forming and checking the orthonormal matrices of the model takes more than `largest_work`. The
/// larger of two counts decides. One has the hidden sizes, as V may have fewer rows than Q. The other one has
/// the shapes of all parameters that make such matrices. Orthogonal weight normalization counts ten times
/// there, as it decomposes a matrix.
bool takes_long(const std::vector<LayerOptions>& layers, const ParameterSet<float>& parameters) {
  double transitions = 0, matrices = 0;
  each_layer(layers, [&](const LayerOptions& layer) {
    if (const auto* orthogonal = std::get_if<OrthogonalCell>(&layer))
      transitions += std::pow(static_cast<double>(orthogonal->hidden_size), 3);
  });
  for (const Parameter& parameter : parameters.list()) {
    if (parameter.kind == ParameterKind::ordinary) continue;
    const auto rows = static_cast<double>(parameter.shape[0]),
               columns = static_cast<double>(parameter.shape[1]);
    matrices +=
        (parameter.name.ends_with("proxy_matrix") ? 10 : 1) * rows * columns * std::min(rows, columns);
  }
  return std::max(transitions, matrices) > largest_work;
}

/// What a layer is made of, a line each.
void print_layers_within(const LayerDescription& layer, int level) {
  for (const LayerDescription& inner : layer.layers) {
    fmt::print("{:{}}of {}{}; output size {}, input size {}\n", "", 8 + 2 * level, inner.kind,
               inner.form.empty() ? "" : ", " + inner.form + " form", inner.output_size, inner.input_size);
    print_layers_within(inner, level + 1);
  }
}

/// What the DeltaProduct layers of a model do, or why that is not known.
struct DeltaPart {
  DeltaFigures figures = {};
  std::string not_computed = {};
};

DeltaPart delta_part(const InspectSettings& settings, const ModelFileInfo& info, bool too_large) {
  if (!has_delta_products(info.model)) {
    if (settings.length == 0) return {};
    throw UsageError(
        fmt::format("--length is for models with DeltaProduct layers, and '{}' has none", settings.model));
  }
  if (too_large) return {.not_computed = "it would take long at these sizes"};
  if (!std::holds_alternative<ModelOptions>(info.model))
    return {.not_computed = "a model of two sequences is not followed"};
  try {
    // A model without a task is refused where its figures are made.
    const DataPlace data = info.task_config.empty() ? DataPlace{{settings.data}, ""}
                                                    : data_place({settings.data}, settings.model,
                                                                 task_options_of(info.task_config));
    const auto model = load_model(settings.model);  // on the CPU
    return {.figures =
                data.with_reason([&] { return delta_figures(*model, info, settings.length, data.files); })};
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    return {.not_computed = error.what()};
  }
}

/// What is in a model file, computed or read.
struct Inspected {
  explicit Inspected(const InspectSettings& settings)
      : execution(settings.machine.apply()),
        model(load_any_model(settings.model, execution, &info)),
        layers(layers_of(info.model)),
        too_large(takes_long(layers, model->parameters())),
        error(too_large ? std::nullopt : model->orthogonality_error()),
        delta(delta_part(settings, info, too_large)) {}

  ModelFileInfo info;
  Execution execution;
  std::unique_ptr<Model<float>> model;
  std::vector<LayerOptions> layers;
  bool too_large;
  std::optional<double> error;
  DeltaPart delta;
};

Json json_of(const Inspected& found, const std::string& file) {
  const ModelFileInfo& info = found.info;
  const ParameterSet<float>& parameters = found.model->parameters();
  Json json = {{"model", file},
               {"format_version", info.format_version},
               {"library_version", info.library_version},
               {"task", info.task_name},
               {"config", Json::parse(info.config)},
               {"parameter_count", parameters.count()},
               {"orthogonality_error", found.error ? Json(*found.error) : Json()},
               {"device", to_string(found.execution.device)},
               {"precision", name_of(found.execution.precision)},
               // Of one step, as the error is found.
               {"cells", recurrences(*found.model, 1, 1)}};
  for (const Parameter& parameter : parameters.list()) {
    Json shape = Json::array();
    for (int i = 0; i < parameter.shape.rank(); ++i) shape.push_back(parameter.shape[i]);
    json["parameters"][parameter.name] = shape;
  }
  if (info.steps)
    json["training"] = {{"step", *info.steps}, {"seed", info.seed}, {"optimizer", info.optimizer}};
  if (info.best) {
    json["training"]["best_metric"] = info.best->loss;
    json["training"]["best_step"] = info.best->step;
  }
  const DeltaPart& delta = found.delta;
  if (!delta.figures.layers.empty()) json["delta_products"] = json_of(delta.figures);
  if (!delta.not_computed.empty()) json["delta_products"] = {{"not_computed", delta.not_computed}};
  return json;
}

void print_layers(const Inspected& found) {
  const std::vector<LayerDescription> cells = found.model->describe(1, 1);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const LayerDescription& cell = cells[i];
    const auto* orthogonal = std::get_if<OrthogonalCell>(&found.layers[i]);
    fmt::print("cell {}    {}{}; {} size {}, input size {}{}\n", i, cell.kind,
               cell.form.empty() ? "" : ", " + cell.form + " form",
               cell.rollout.empty() ? "output" : "hidden", cell.output_size, cell.input_size,
               orthogonal ? ", activation " + name_of(orthogonal->activation) : "");
    print_layers_within(cell, 1);
  }
}

const char* kind_text(ParameterKind kind) {
  if (kind == ParameterKind::stiefel) return "  on the Stiefel manifold";
  return kind == ParameterKind::orthogonal ? "  orthogonal" : "";
}

void print_parameters(const ParameterSet<float>& parameters) {
  for (const Parameter& parameter : parameters.list()) {
    fmt::print("  {:32} {}{}\n", parameter.name, to_string(parameter.shape), kind_text(parameter.kind));
  }
  fmt::print("parameters {} in all\n", parameters.count());
}

void print_text(const Inspected& found, const std::string& file) {
  const ModelFileInfo& info = found.info;
  fmt::print("{}: orthornn model, format version {}, written by orthornn {}\n", printable(file),
             info.format_version, info.library_version);
  fmt::print("task      {}\n", info.task_name.empty() ? "none" : info.task_config);
  print_layers(found);
  print_parameters(found.model->parameters());
  if (found.error) {
    fmt::print("|I - A'A|  {:.1e}, the largest entry for Q as {} applies it on {}\n", *found.error,
               name_of(found.execution.precision), to_string(found.execution.device));
  } else if (found.too_large) {
    fmt::print("|I - A'A|  not computed: it would take long at these sizes\n");
  }
  if (info.steps) {
    fmt::print("training   {} steps with {}, batch {}, seed {}", *info.steps, info.optimizer, info.batch,
               info.seed);
    if (info.best) fmt::print("; best validation loss {:.4g} at step {}", info.best->loss, info.best->step);
    fmt::print("\n");
  }
  print_delta_figures(found.delta.figures);
  if (!found.delta.not_computed.empty())
    fmt::print("step sizes and effective ranks not computed: {}\n", printable(found.delta.not_computed));
}

/// Writes what plots need; returns what was written, in words.
std::string export_figures(const Inspected& found, const std::string& path) {
  ArrayFile file(path, figures_format);
  add_orthogonal_layers(file, *found.model);
  add_delta_figures(file, found.delta.figures);
  add_scalars(file, *found.model, found.info, found.error);
  file.commit();
  return fmt::format("{}: {}", printable(path), file.text());
}

void check_figures(const InspectSettings& settings) {
  if (settings.figures.empty()) return;
  if (!is_array_file(settings.figures)) {
    throw UsageError(
        fmt::format("--export '{}': expected a name that ends in .h5, .hdf5 or .npz", settings.figures));
  }
  std::error_code missing;  // no file yet: nothing to overwrite
  if (std::filesystem::equivalent(settings.model, settings.figures, missing))
    throw UsageError(fmt::format("--export '{}' is the model; choose another name", settings.figures));
  check_output(settings.figures, OutputKind::figures, settings.overwrite);
}

int inspect(const InspectSettings& settings) {
  check_figures(settings);
  const Inspected found(settings);
  const std::string written = settings.figures.empty() ? "" : export_figures(found, settings.figures);
  if (settings.json) {
    fmt::print("{}\n", json_text(json_of(found, settings.model)));
  } else {
    print_text(found, settings.model);
    if (!written.empty()) fmt::print("{}\n", written);
  }
  return success;
}

}  // namespace

void add_inspect(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("inspect", "What is in a model file");
  const auto settings = std::make_shared<InspectSettings>();
  command->add_option("model", settings->model, "Model file")->required();
  command
      ->add_option("--length", settings->length,
                   "Steps of the test sequence along which DeltaProduct layers are followed; left out: the "
                   "task's")
      ->transform(whole_number_in(1, Index{1} << 31))
      ->default_str("");
  command
      ->add_option(
          "--data", settings->data,
          "Where the data of mnist or own sequences are, along which DeltaProduct layers are followed; "
          "left out: where the config.toml beside the model says, or data/mnist")
      ->default_str("");
  command->add_flag("--json", settings->json, "One JSON object instead of a text");
  command
      ->add_option("--export", settings->figures,
                   "HDF5 or npz file to write for plots: Q of each orthogonal layer, the angles of its "
                   "eigenvalues, and what DeltaProduct layers do")
      ->default_str("");
  add_overwrite(*command, settings->overwrite);
  settings->machine.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return inspect(*settings); }; });
}

}  // namespace orthornn::program
