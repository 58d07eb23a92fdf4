#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace orthornn::program {

/// The commit that HEAD names in the git repository that a folder lies in, read from the files of git.
/// Nothing without a repository, before its first commit, and where git keeps its references in another way.
std::optional<std::string> git_commit(const std::filesystem::path& folder);

}  // namespace orthornn::program
