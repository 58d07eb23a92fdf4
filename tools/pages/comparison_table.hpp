#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/checked_json.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::program {

/// One method over all sizes N: at one L (or M) as "N/2", or at none.
struct ComparisonRow {
  std::string method;
  std::string name;
  /// The method's number in the table: the style of its lines.
  int style;
  std::string reflections;  // "" for methods that have none
  /// For each N the measured result; nullptr if L would be above N.
  std::vector<const Json*> results;
};

/// A list of compare.json as rows of methods and columns of N: "training_step", "construction", "stiefel", or
/// "speed_up", whose methods are those that CWY is compared with.
struct ComparisonTable {
  std::vector<Index> hidden;
  std::vector<ComparisonRow> rows;
};

/// Points into `comparison`. Throws nlohmann's exceptions for JSON that `orthornn bench compare` did not
/// write.
ComparisonTable comparison_table(const Json& comparison, const std::string& list);

/// The median of `key` ("total_ms" ...) as text, "" if there is none. A star means that the time limit
/// allowed fewer samples than requested.
std::string comparison_cell(const Json& comparison, const Json* result, const std::string& key);

/// Sizes N from which on a table says how its rows grow.
inline constexpr std::size_t sizes_of_growth = 3;

/// The power of N with which the medians of `key` grow, as text (pages/line_fit.hpp). "" for fewer sizes.
std::string growth_cell(const ComparisonTable& table, const ComparisonRow& row, const std::string& key);

}  // namespace orthornn::program
