#include "commands/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "orthornn/core/error.hpp"

namespace orthornn::program {
namespace {

int open_folder(const std::filesystem::path& folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/// False where another has it. Where the file system has no locks, two trainings are not kept apart.
bool lock(int descriptor, int kind) { return flock(descriptor, kind | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : descriptor_(open_folder(folder)) {
  if (descriptor_ < 0) {
    throw FileError(
        fmt::format("cannot open the run directory '{}': {}", folder.string(), std::strerror(errno)));
  }
  if (lock(descriptor_, LOCK_EX)) return;
  // `is_locked` of another process has it for a moment.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (lock(descriptor_, LOCK_EX)) return;
  close(descriptor_);
  throw FileError(fmt::format("another training is at work in '{}'; wait for it or choose another --out",
                              folder.string()));
}

FolderLock::~FolderLock() { close(descriptor_); }

bool is_locked(const std::filesystem::path& folder) {
  const int descriptor = open_folder(folder);
  if (descriptor < 0) return false;
  const bool locked = !lock(descriptor, LOCK_SH);
  close(descriptor);
  return locked;
}

}  // namespace orthornn::program
