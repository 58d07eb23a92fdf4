#pragma once

#include <filesystem>
#include <string>

#include "core/checked_json.hpp"

namespace orthornn::program {

/// The format of compare.json.
inline constexpr const char* comparison_format = "orthornn-comparison";
inline constexpr int comparison_format_version = 1;

/// The HTML page of what `orthornn bench compare` measured, from its JSON only. Throws Error for other JSON,
/// naming what is missing.
std::string comparison_page(const Json& comparison);

/// The same of the JSON in `file`. Throws FileError for another kind of file.
std::string page_of_comparison(const std::filesystem::path& file);

}  // namespace orthornn::program
