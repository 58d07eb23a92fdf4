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

RolloutWay chosen_way(const Transition<float>& transition, Index length, Index batch) {
  try {
    return rollout_way(transition, length, batch);
  } catch (const ValueError& error) {
    throw UsageError(fmt::format("--rollout {}: {}", name_of(transition.execution().rollout), error.what()));
  }
}

Json recurrences(const SequenceModel<float>& model, Index length, Index batch) {
  Json cells = Json::array();
  for (Index i = 0; i < model.cell_count(); ++i) {
    const Transition<float>& transition = model.cell(i).transition();
    cells.push_back({{"cell", name_of(model.cell(i).options().transition)},
                     {"form", transition.form()},
                     {"hidden", transition.hidden_size()},
                     {"rollout", name_of(chosen_way(transition, length, batch))}});
  }
  return cells;
}

void print_recurrences(const Json& cells, const Execution& execution, Index length, Index batch) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Json& cell = cells[i];
    fmt::print("recurrence {}: {}, {} form, N = {}, {} rollout of {} steps and {} sequences on {}\n", i,
               cell["cell"].get<std::string>(), cell["form"].get<std::string>(), cell["hidden"].get<Index>(),
               cell["rollout"].get<std::string>(), length, batch, machine_text(execution));
  }
}

}  // namespace orthornn::program
