#pragma once

#include <filesystem>

namespace orthornn::program {

/// Keeps a run directory to one training at a time, as long as it lives.
class FolderLock {
 public:
  /// Throws FileError for a folder that cannot be opened or that another training has.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// Whether a training is at work in the folder. False where that cannot be told.
bool is_locked(const std::filesystem::path& folder);

}  // namespace orthornn::program
