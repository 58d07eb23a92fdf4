#pragma once

#include <filesystem>
#include <string>

namespace orthornn::program {

/// The HTML page of the results of `orthornn bench compare` in `file`. Throws FileError for another kind of
/// file, and throws as `comparison_page` if a plot cannot be drawn.
std::string page_of_comparison(const std::filesystem::path& file);

}  // namespace orthornn::program
