#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace orthornn::program {

/// The format of compare.json.
inline constexpr const char* comparison_format = "orthornn-comparison";
inline constexpr int comparison_format_version = 1;

/// The HTML page of what `orthornn bench compare` measured, from its JSON only. Throws Error for other JSON,
/// naming what is missing, and if gnuplot is missing.
std::string comparison_page(const nlohmann::ordered_json& comparison);

}  // namespace orthornn::program
