#pragma once
// What `orthornn bench compare` prints of its JSON.

#include <nlohmann/json.hpp>

#include "orthornn/core/execution.hpp"

namespace orthornn::program {

/// How each training step was computed.
void print_compared_recurrences(const nlohmann::ordered_json& comparison);
/// Where it was measured, and a table of each list.
void print_comparison_tables(const nlohmann::ordered_json& comparison, const Execution& execution);
/// By how much CWY is faster than each other way to multiply reflections, a line each.
void print_gains_of_cwy(const nlohmann::ordered_json& comparison);

}  // namespace orthornn::program
