#include "commands/machine.hpp"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <system_error>

#include "commands/program.hpp"
#include "core/free_memory.hpp"
#include "orthornn/core/error.hpp"
#include "support/git_commit.hpp"

namespace orthornn::program {

namespace {

/// The words of this process, each as a shell takes it; empty where the system does not say.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(file, word, '\0');)
    line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

/// What `describe()` returns, but a way that does not take the sizes is wrong use.
template <class Describe>
auto unless_refused(const Execution& execution, const Describe& describe) {
  try {
    return describe();
  } catch (const ValueError& error) {
    throw UsageError(fmt::format("--rollout {}: {}", name_of(execution.rollout), error.what()));
  }
}

Json json_of(const std::vector<LayerDescription>& layers) {
  Json list = Json::array();
  for (const LayerDescription& layer : layers) {
    Json& own = list.emplace_back(Json{{"cell", layer.kind},
                                       {"form", layer.form},
                                       {"hidden", layer.output_size},
                                       {"rollout", layer.rollout}});
    if (!layer.layers.empty()) own["layers"] = json_of(layer.layers);
  }
  return list;
}

/// Calls visit(cell) for those that go through the steps, with those within others.
void each_recurrence(const Json& cells, const auto& visit) {
  for (const Json& cell : cells) {
    if (!cell["form"].get<std::string>().empty() || !cell["rollout"].get<std::string>().empty()) visit(cell);
    if (cell.contains("layers")) each_recurrence(cell["layers"], visit);
  }
}

}  // namespace

Json machine_fields(const Execution& execution) {
  Json fields = {{"processor", properties_of(Device::cpu()).name},
                 {"device", to_string(execution.device)},
                 {"threads", thread_count()},
                 {"precision", name_of(execution.precision)}};
  if (execution.device.is_cuda()) {
    const DeviceProperties gpu = properties_of(execution.device);
    fields["gpu"] = {{"name", gpu.name},
                     {"compute_capability", gpu.compute_capability},
                     {"memory_bytes", gpu.memory_bytes},
                     {"multiprocessors", gpu.multiprocessors},
                     {"clock_mhz", gpu.clock_mhz},
                     {"driver_cuda", gpu.driver_cuda},
                     {"cuda", gpu.cuda}};
  }
  return fields;
}

Json origin_fields(const Execution& execution) {
  Json fields = Json::object();
  if (const std::string line = command_line(); !line.empty()) fields["command"] = line;
  fields["machine"] = machine_fields(execution);
  std::error_code unknown;
  const std::filesystem::path here = std::filesystem::current_path(unknown);
  if (unknown) return fields;
  if (const std::optional<std::string> commit = git_commit(here)) fields["git_commit"] = *commit;
  return fields;
}

std::string machine_text(const Execution& execution) {
  return machine_text(execution.device, name_of(execution.precision));
}

std::string machine_text(Device device, std::string_view precision) {
  return fmt::format("{} ({}), {}", to_string(device), description(device), precision);
}

RolloutWay chosen_way(const Transition<float>& transition, Index length, Index batch) {
  return unless_refused(transition.execution(), [&] { return rollout_way(transition, length, batch); });
}

LayerDescription chosen_description(const Layer<float>& layer, const Execution& execution, Index length,
                                    Index batch) {
  return unless_refused(execution, [&] { return layer.describe(length, batch); });
}

Json recurrences(const Model<float>& model, Index length, Index batch) {
  return json_of(unless_refused(model.execution(), [&] { return model.describe(length, batch); }));
}

std::string first_form(const Json& cells) {
  std::string form;
  each_recurrence(cells, [&](const Json& cell) {
    if (form.empty()) form = cell["form"].get<std::string>();
  });
  return form;
}

void print_recurrences(const Json& cells, const Execution& execution, Index length, Index batch) {
  int number = 0;
  each_recurrence(cells, [&](const Json& cell) {
    const auto form = cell["form"].get<std::string>();
    const auto rollout = cell["rollout"].get<std::string>();
    fmt::print("recurrence {}: {}, {}N = {}, {}{} steps and {} sequences on {}\n", number++,
               cell["cell"].get<std::string>(), form.empty() ? "" : form + " form, ",
               cell["hidden"].get<Index>(), rollout.empty() ? "" : rollout + " rollout of ", length, batch,
               machine_text(execution));
  });
}

void check_free_memory(const std::string& work, double bytes, const char* advice) {
  const std::optional<double> available = free_bytes();
  if (!available || bytes <= *available) return;
  throw Error(fmt::format("{} about {:.3g} GB, and {:.3g} GB of memory are free; {}", work, bytes * 1e-9,
                          *available * 1e-9, advice));
}

}  // namespace orthornn::program
