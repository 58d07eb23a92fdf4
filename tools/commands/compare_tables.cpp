#include "commands/compare_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "commands/machine.hpp"
#include "commands/measured_transition.hpp"
#include "pages/comparison_table.hpp"
#include "pages/reflection_count.hpp"

namespace orthornn::program {
namespace {

using Json = nlohmann::ordered_json;

/// A table with a column for each N and a row for each method and L (or M); `key` is one of the results'.
void print_table(const Json& comparison, const std::string& title, const std::string& list, const char* key) {
  const ComparisonTable table = comparison_table(comparison, list);
  fmt::print("\n{}\n{:<40}{:>5}", title, "", list == "stiefel" ? "M" : "L");
  for (const Index n : table.hidden) fmt::print("{:>11}", fmt::format("N = {}", n));
  fmt::print("\n");
  for (const ComparisonRow& row : table.rows) {
    std::string cells;
    for (const Json* result : row.results) {
      const std::string cell = comparison_cell(comparison, result, key);
      cells += fmt::format("{:>11}", cell.ends_with('*') ? cell : cell + " ");
    }
    if (cells.find_first_not_of(' ') == std::string::npos) continue;
    fmt::print("{:<40}{:>5}{}\n", row.name, row.reflections, cells);
  }
}

/// One line: by how much CWY is faster at each N, with the first L that was asked for.
void print_speed_ups(const Json& comparison, const std::string& over, const std::string& name) {
  const std::string text = comparison["settings"]["reflections"][0];
  const std::optional<ReflectionCount> count = ReflectionCount::parse(text);
  std::vector<std::string> factors;
  for (const Json& speed_up : comparison["speed_up"]) {
    const Index hidden = speed_up["hidden"];
    if (speed_up["over"] != over || count->at(hidden) != speed_up["reflections"].get<Index>()) continue;
    factors.push_back(fmt::format("{:.2f} (N = {})", speed_up["factor"].get<double>(), hidden));
  }
  if (factors.empty()) return;
  fmt::print("CWY over {}, L = {}, times faster: {}\n", name, text, fmt::join(factors, ", "));
}

}  // namespace

void print_compared_recurrences(const Json& comparison) {
  fmt::print("\n");
  for (const Json& result : comparison["training_step"]) {
    const auto form = result["form"].get<std::string>();
    fmt::print("{}, N = {}, L = {}: {}{} rollout\n", result["name"].get<std::string>(),
               result["hidden"].get<Index>(), result["reflections"].get<Index>(),
               form.empty() ? "" : form + " form, ", result["rollout"].get<std::string>());
  }
}

void print_comparison_tables(const Json& comparison, const Execution& execution) {
  const Json& machine = comparison["machine"];
  const Json& settings = comparison["settings"];
  fmt::print("{}, {} threads, {}\n", machine_text(execution), machine["threads"].get<int>(),
             machine["compiler"].get<std::string>());
  fmt::print("medians of {} samples after a warm-up; * fewer, as {} s had gone\n",
             settings["samples"].get<int>(), settings["limit_seconds"].get<double>());
  print_table(
      comparison,
      fmt::format("training step, ms: prepare, forward, backward and gradient of the parameters; batch "
                  "{}, {} steps, {}",
                  settings["batch"].get<Index>(), settings["length"].get<Index>(),
                  settings["activation"].get<std::string>()),
      "training_step", "total_ms");
  print_table(comparison, "construction of Q from the parameters, ms", "construction", "forward_ms");
  print_table(comparison, "construction of Q and the parameters' gradient from that of Q, ms", "construction",
              "total_ms");
  print_table(comparison, "Stiefel manifold St(N, M), millions of operations by formula", "stiefel", "mflop");
  print_table(
      comparison,
      "Stiefel manifold St(N, M), ms of an optimizer step: T-CWY forms Omega and the gradient of its\n"
      "parameters, RGD moves Omega itself",
      "stiefel", "total_ms");
}

void print_gains_of_cwy(const Json& comparison) {
  fmt::print("\n");
  for (const BenchCell& cell : bench_cells()) print_speed_ups(comparison, cell.name, cell.title);
}

}  // namespace orthornn::program
