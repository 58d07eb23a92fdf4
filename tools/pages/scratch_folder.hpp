#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "orthornn/core/error.hpp"

namespace orthornn::program {

/// A new folder among the temporary files, removed in the end.
class ScratchFolder {
 public:
  /// Throws Error, which begins with `purpose`: "no plot can be drawn".
  explicit ScratchFolder(const char* purpose) {
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
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace orthornn::program
