#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace orthornn {

/// Is given the next piece of a text.
using TakePiece = std::function<void(std::string_view piece)>;

/// Hands a text to `take` in pieces, a zip archive's only *.txt unpacked. Refuses what is said at
/// `read_parallel_text`. Returns the name for messages: the path, with the member of an archive.
std::string read_text_file(const std::filesystem::path& path, const TakePiece& take);

/// The only *.zip, *.txt or *.tsv in a folder. Throws FileError when there is none, or more than one.
std::filesystem::path find_text_file(const std::filesystem::path& folder);

}  // namespace orthornn
