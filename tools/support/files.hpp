#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace orthornn::program {

namespace fs = std::filesystem;

/// Whether there is anything of this name. False too for a path that the system cannot follow.
bool is_present(const std::filesystem::path& path);

/// The folders in a folder, without links, in the order of their names: seed2 before seed10. Throws FileError
/// for a folder that cannot be read.
std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder);

/// Every byte of the file. Throws FileError for a file that cannot be read.
std::string read_whole_file(const std::filesystem::path& file);

/// A new folder among the temporary files, removed in the end.
class ScratchFolder {
 public:
  /// Throws Error, which begins with `purpose`: "the settings cannot be checked".
  explicit ScratchFolder(const char* purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace orthornn::program
