#include "commands/bench_translate_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "commands/program.hpp"

namespace orthornn::program {
namespace {

using Json = nlohmann::ordered_json;

/// The texts of a row's numbers for `print_line`: as wide as a column where they can be, empty without one.
auto numbers_of(const Json& row) {
  return [&row](const TableColumn& column) -> std::string {
    const std::optional<double> value = column.value_in(row);
    if (!value) return "";
    return std::abs(*value) < 1e9 ? fmt::format("{:.{}f}", *value, column.digits)
                                  : fmt::format("{:.3e}", *value);
  };
}

void print_line(const std::string& cell, const std::string& reflections, const std::string& seed,
                const auto& text_of) {
  fmt::print("{:<12} {:>6} {:>6}", cell, reflections, seed);
  for (const TableColumn& column : table_columns) {
    const int width = std::max<int>(10, static_cast<int>(std::string_view(column.title).size()));
    fmt::print(" {:>{}}", text_of(column), width);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

std::string reflections_text(const Json& row) {
  return row["reflections"].is_null() ? "" : fmt::format("{}", row["reflections"].get<Index>());
}

}  // namespace

std::optional<double> TableColumn::value_in(const Json& row) const {
  const Json::json_pointer pointer(place);
  if (!row.contains(pointer) || !row.at(pointer).is_number()) return std::nullopt;
  return row.at(pointer).get<double>();
}

void print_table_titles() {
  print_line("cell", "L", "seed", [](const TableColumn& column) { return std::string(column.title); });
}

void print_table_row(const Json& row) {
  const std::string cell = row["cell"], reflections = reflections_text(row);
  const std::string seed = fmt::format("{}", row["seed"].get<std::uint64_t>());
  if (row["state"] != "done") {
    fmt::print("{:<12} {:>6} {:>6} {}\n", cell, reflections, seed,
               printable(row["error"].get<std::string>()));
    std::fflush(stdout);
    return;
  }
  print_line(cell, reflections, seed, numbers_of(row));
}

Json seeds_summary(const std::vector<const Json*>& rows) {
  Json summary = {{"cell", rows[0]->at("cell")},
                  {"reflections", rows[0]->at("reflections")},
                  {"seeds", rows.size()},
                  {"mean", Json::object()},
                  {"deviation", Json::object()}};
  for (const TableColumn& column : table_columns) {
    std::vector<double> values;
    for (const Json* row : rows) {
      if (const std::optional<double> value = column.value_in(*row)) values.push_back(*value);
    }
    if (values.size() < 2) continue;
    const double count = static_cast<double>(values.size());
    double mean = 0, square = 0;
    for (const double value : values) mean += value / count;
    for (const double value : values) square += (value - mean) * (value - mean) / (count - 1);
    const Json::json_pointer place(column.place);
    summary["mean"][place] = mean;
    summary["deviation"][place] = std::sqrt(square);
  }
  return summary;
}

void print_seeds_summary(const Json& summary) {
  for (const char* key : {"mean", "deviation"}) {
    print_line(summary["cell"], reflections_text(summary), key == std::string("mean") ? "mean" : "sd",
               numbers_of(summary[key]));
  }
}

}  // namespace orthornn::program
