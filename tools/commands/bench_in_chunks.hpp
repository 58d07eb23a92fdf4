#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "commands/free_memory.hpp"
#include "commands/number_type.hpp"
#include "commands/pass_table.hpp"
#include "commands/program.hpp"

namespace orthornn::program {

/// The benchmark of a function in chunks, of floats or doubles, with a table whose first column is `title`.
/// `describe(device)` prints what is measured, and `measure(T, device, table)` adds the rows. A GPU has no
/// longer chunks than `most_on_gpu`. Throws Error where the CPU has less memory than `settings.numbers()`
/// need.
template <class Settings>
int bench_in_chunks(Settings& settings, Index most_on_gpu, const char* title, const auto& describe,
                    const auto& measure) {
  const Execution execution = settings.machine.apply(settings.batch);
  const Device device = execution.device;
  const bool is_double = settings.precision == NumberType::fp64;
  if (device.is_cuda()) {
    settings.chunk = std::min(settings.chunk, most_on_gpu);
  } else {
    check_free_memory("these sizes take", settings.numbers() * (is_double ? sizeof(double) : sizeof(float)),
                      "choose a smaller --length, --batch or --heads");
  }
  PassTable table(settings.table, execution, name_of(settings.precision), "D");
  describe(device);
  table.print_head(fmt::format("{:<10}", title));
  is_double ? measure(double(), device, table) : measure(float(), device, table);
  table.finish();
  return success;
}

}  // namespace orthornn::program
