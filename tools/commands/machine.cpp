#include "commands/machine.hpp"

#include <fmt/format.h>

#include "commands/program.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::program {

using Json = nlohmann::ordered_json;

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

std::string machine_text(const Execution& execution) {
  return fmt::format("{} ({}), {}", to_string(execution.device), description(execution.device),
                     name_of(execution.precision));
}

namespace {

/// What `describe()` returns, but a way that does not take the sizes is wrong use.
template <class Describe>
auto unless_refused(const Execution& execution, const Describe& describe) {
  try {
    return describe();
  } catch (const ValueError& error) {
    throw UsageError(fmt::format("--rollout {}: {}", name_of(execution.rollout), error.what()));
  }
}

}  // namespace

RolloutWay chosen_way(const Transition<float>& transition, Index length, Index batch) {
  return unless_refused(transition.execution(), [&] { return rollout_way(transition, length, batch); });
}

LayerDescription chosen_description(const Layer<float>& layer, const Execution& execution, Index length,
                                    Index batch) {
  return unless_refused(execution, [&] { return layer.describe(length, batch); });
}

Json recurrences(const Model<float>& model, Index length, Index batch) {
  Json cells = Json::array();
  for (const LayerDescription& cell :
       unless_refused(model.execution(), [&] { return model.describe(length, batch); })) {
    cells.push_back(
        {{"cell", cell.kind}, {"form", cell.form}, {"hidden", cell.output_size}, {"rollout", cell.rollout}});
  }
  return cells;
}

void print_recurrences(const Json& cells, const Execution& execution, Index length, Index batch) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Json& cell = cells[i];
    const auto form = cell["form"].get<std::string>();
    const auto rollout = cell["rollout"].get<std::string>();
    fmt::print("recurrence {}: {}, {}N = {}, {}{} steps and {} sequences on {}\n", i,
               cell["cell"].get<std::string>(), form.empty() ? "" : form + " form, ",
               cell["hidden"].get<Index>(), rollout.empty() ? "" : rollout + " rollout of ", length, batch,
               machine_text(execution));
  }
}

}  // namespace orthornn::program
