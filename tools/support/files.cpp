#include "support/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "orthornn/core/error.hpp"

namespace orthornn::program {

bool is_present(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder) {
  std::error_code status, ignored;
  std::vector<fs::path> inner;
  for (fs::directory_iterator entry(folder, status), end; !status && entry != end; entry.increment(status)) {
    if (fs::is_directory(entry->symlink_status(ignored))) inner.push_back(entry->path());
  }
  if (status)
    throw FileError(fmt::format("cannot read the folder '{}': {}", folder.string(), status.message()));
  std::ranges::sort(inner, {}, [](const fs::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.substr(0, name.find_last_not_of("0123456789") + 1), std::pair(name.size(), name));
  });
  return inner;
}

std::string read_whole_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> part;
  // Not by istreambuf_iterator, which throws an exception of the standard library for a folder.
  while (stream.read(part.data(), part.size()), stream.gcount() > 0)
    text.append(part.data(), static_cast<std::size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad())
    throw FileError(fmt::format("cannot read '{}': {}", file.string(), std::strerror(errno)));
  return text;
}

ScratchFolder::ScratchFolder(const char* purpose) {
  std::error_code status;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(status);
  if (status) {
    throw Error(fmt::format("{}: there is no folder for temporary files ({}); name one by TMPDIR", purpose,
                            status.message()));
  }
  std::string path = (parent / "orthornn-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    throw Error(fmt::format("{} in '{}': {}", purpose, path, std::strerror(errno)));
  path_ = path;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace orthornn::program
