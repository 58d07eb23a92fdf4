#include "support/git_commit.hpp"

#include <fstream>
#include <string_view>
#include <system_error>

#include "support/files.hpp"

namespace orthornn::program {
namespace {

/// The first line of a file; empty where there is no such regular file.
std::string first_line(const fs::path& file) {
  std::error_code status;
  std::string line;
  if (fs::is_regular_file(file, status)) {
    std::ifstream stream(file);
    std::getline(stream, line);
  }
  return line;
}

bool is_commit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// What git keeps of a repository: the folder .git of the nearest folder that has one, or the folder that a
/// file .git names, as in other working trees. Empty where there is none.
fs::path git_folder(fs::path folder) {
  constexpr std::string_view key = "gitdir: ";
  while (true) {
    const fs::path found = folder / ".git";
    std::error_code status;
    if (fs::is_directory(found, status)) return found;
    if (const std::string line = first_line(found); line.starts_with(key))
      return folder / line.substr(key.size());
    if (!folder.has_relative_path()) return {};
    folder = folder.parent_path();
  }
}

/// The commit of a reference among those that git has packed into one file; empty where it is not.
std::string packed(const fs::path& file, const std::string& name) {
  std::error_code status;
  if (!fs::is_regular_file(file, status)) return {};
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with(" " + name)) return line.substr(0, line.find(' '));
  }
  return {};
}

}  // namespace

std::optional<std::string> git_commit(const fs::path& folder) {
  const fs::path own = git_folder(folder);
  if (own.empty()) return std::nullopt;
  // Working trees of one repository share their branches.
  const std::string shared = first_line(own / "commondir");
  const fs::path common = shared.empty() ? own : own / shared;
  constexpr std::string_view key = "ref: ";
  constexpr int most_links = 5;  // as git follows
  std::string found = first_line(own / "HEAD");
  for (int links = 0; links < most_links && found.starts_with(key); ++links) {
    const std::string name = found.substr(key.size());
    if (!name.starts_with("refs/") || name.find("..") != std::string::npos) return std::nullopt;
    for (const fs::path& place : {own, common}) {
      found = first_line(place / name);
      if (!found.empty()) break;
    }
    if (found.empty()) found = packed(common / "packed-refs", name);
  }
  return is_commit(found) ? std::optional(found) : std::nullopt;
}

}  // namespace orthornn::program
