#pragma once

#include <filesystem>
#include <string>

namespace orthornn::program {

/// The HTML page of the results that `orthornn bench compare` left in `file`. Throws FileError when it is
/// something else, and what `comparison_page` throws where a plot cannot be drawn.
std::string page_of_comparison(const std::filesystem::path& file);

}  // namespace orthornn::program
