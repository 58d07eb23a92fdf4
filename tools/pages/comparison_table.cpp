#include "pages/comparison_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "orthornn/core/error.hpp"
#include "pages/line_fit.hpp"
#include "support/number_text.hpp"
#include "support/reflection_count.hpp"

namespace orthornn::program {

namespace {

/// An array of bounded length: the results are searched for each of its entries.
const Json& bounded_list(const Json& settings, const char* key) {
  constexpr std::size_t most = 100;
  const Json& list = array_member(settings, key);
  if (list.size() > most)
    throw ValueError(fmt::format("'{}' has {} entries; expected at most {}", key, list.size(), most));
  return list;
}

}  // namespace

ComparisonTable comparison_table(const Json& comparison, const std::string& list) {
  ComparisonTable table;
  const Json& settings = object_member(comparison, "settings");
  for (const Json& size : bounded_list(settings, "hidden"))
    table.hidden.push_back(whole_number("a size", size, 1));
  std::vector<ReflectionCount> counts;
  for (const std::string text : bounded_list(settings, "reflections")) {
    const auto count = ReflectionCount::parse(text);
    if (!count) throw ValueError(fmt::format("'{}' is no number of reflections", text));
    counts.push_back(*count);
  }
  std::vector<std::string> methods;
  // By the numbers of the method and of L.
  std::map<std::pair<std::size_t, std::size_t>, ComparisonRow> rows;
  for (const Json& result : comparison.at(list)) {
    const std::string method = result.at(list == "speed_up" ? "over" : "method");
    const auto method_number = static_cast<std::size_t>(std::ranges::find(methods, method) - methods.begin());
    if (method_number == methods.size()) methods.push_back(method);
    const bool stiefel = result.contains("m");
    const auto column =
        std::find(table.hidden.begin(), table.hidden.end(), result.at(stiefel ? "n" : "hidden"));
    if (column == table.hidden.end()) continue;
    const auto add = [&](std::size_t count, const std::string& reflections) {
      ComparisonRow& row = rows[{method_number, count}];
      row = {method, result.value("name", method), static_cast<int>(method_number), reflections,
             std::move(row.results)};
      row.results.resize(table.hidden.size());
      row.results[static_cast<std::size_t>(column - table.hidden.begin())] = &result;
    };
    const Json& reflections = result.at(stiefel ? "m" : "reflections");
    if (!stiefel && reflections == 0) add(0, "");
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i].at(*column).value_or(-1) == reflections) add(i, settings.at("reflections")[i]);
    }
  }
  for (auto& [place, row] : rows) table.rows.push_back(std::move(row));
  return table;
}

std::string comparison_cell(const Json& comparison, const Json* result, const std::string& key) {
  if (result == nullptr || !result->contains(key)) return "";
  const bool cut_short = result->contains("total_samples_ms") && key != "mflop" &&
                         std::cmp_less(array_member(*result, "total_samples_ms").size(),
                                       integer_member(object_member(comparison, "settings"), "samples"));
  return short_number(result->at(key)) + (cut_short ? "*" : "");
}

std::string growth_cell(const ComparisonTable& table, const ComparisonRow& row, const std::string& key) {
  std::vector<double> sizes, medians;
  for (std::size_t i = 0; i < row.results.size(); ++i) {
    if (row.results[i] == nullptr || !row.results[i]->contains(key)) continue;
    sizes.push_back(static_cast<double>(table.hidden[i]));
    medians.push_back(row.results[i]->at(key));
  }
  const std::optional<double> power = power_of_growth(sizes, medians);
  return power ? fmt::format("{:.2f}", *power) : "";
}

}  // namespace orthornn::program
