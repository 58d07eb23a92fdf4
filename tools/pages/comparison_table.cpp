#include "pages/comparison_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/checked_json.hpp"
#include "orthornn/core/error.hpp"
#include "pages/number_text.hpp"
#include "pages/reflection_count.hpp"

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

/// For each N the result of `method` with L = count(N).
template <class Count>
std::vector<const Json*> results_of(const Json& results, const std::string& method,
                                    const std::vector<Index>& hidden, const Count& count) {
  std::vector<const Json*> found(hidden.size(), nullptr);
  for (const Json& result : results) {
    if (result.at("method") != method) continue;
    const bool stiefel = result.contains("m");
    const auto column = std::find(hidden.begin(), hidden.end(), result.at(stiefel ? "n" : "hidden"));
    if (column == hidden.end() || count(*column) != result.at(stiefel ? "m" : "reflections")) continue;
    found[static_cast<std::size_t>(column - hidden.begin())] = &result;
  }
  return found;
}

}  // namespace

ComparisonTable comparison_table(const Json& comparison, const std::string& list) {
  ComparisonTable table;
  const Json& settings = object_member(comparison, "settings");
  for (const Json& size : bounded_list(settings, "hidden"))
    table.hidden.push_back(whole_number("a size", size, 1));
  const Json& results = comparison.at(list);
  std::vector<std::string> methods;
  for (const Json& first : results) {
    const std::string method = first.at("method");
    if (std::count(methods.begin(), methods.end(), method) > 0) continue;
    methods.push_back(method);
    ComparisonRow row{.method = method,
                      .name = first.at("name"),
                      .style = static_cast<int>(methods.size()) - 1,
                      .reflections = "",
                      .results = {}};
    if (first.value("reflections", Index{1}) == 0) {
      row.results = results_of(results, method, table.hidden, [](Index) { return Index{0}; });
      table.rows.push_back(std::move(row));
      continue;
    }
    for (const Json& text : bounded_list(settings, "reflections")) {
      const auto count = ReflectionCount::parse(text);
      if (!count) throw ValueError(fmt::format("'{}' is no number of reflections", text.get<std::string>()));
      row.reflections = text;
      row.results =
          results_of(results, method, table.hidden, [&](Index n) { return count->at(n).value_or(-1); });
      if (std::any_of(row.results.begin(), row.results.end(), [](const Json* r) { return r != nullptr; }))
        table.rows.push_back(row);
    }
  }
  return table;
}

std::string comparison_cell(const Json& comparison, const Json* result, const std::string& key) {
  if (result == nullptr || !result->contains(key)) return "";
  const bool cut_short = result->contains("total_samples_ms") && key != "mflop" &&
                         std::cmp_less(array_member(*result, "total_samples_ms").size(),
                                       integer_member(object_member(comparison, "settings"), "samples"));
  return short_number(result->at(key)) + (cut_short ? "*" : "");
}

}  // namespace orthornn::program
