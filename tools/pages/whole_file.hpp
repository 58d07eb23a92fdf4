#pragma once

#include <filesystem>
#include <string>

namespace orthornn::program {

/// Every byte of the file. Throws FileError for a file that cannot be read.
std::string read_whole_file(const std::filesystem::path& file);

}  // namespace orthornn::program
