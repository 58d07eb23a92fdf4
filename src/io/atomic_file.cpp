#include "orthornn/io/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "io/descriptor.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

namespace fs = std::filesystem;

// The number of links that the kernel follows.
constexpr int most_links = 40;

std::string advice(int error, const fs::path& folder) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return fmt::format("free space in folder '{}' or save elsewhere", folder.string());
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f) or save elsewhere";
    case EACCES:
    case EPERM:
    case EROFS:
      return fmt::format("save to a folder that you may write to ('{}' is not)", folder.string());
    case ENOENT:
      return fmt::format("create folder '{}' first", folder.string());
    case ENOTDIR:
      return fmt::format("'{}' is not a folder; correct the path", folder.string());
    case EIO:
      return "check the disk or save elsewhere";
    default:
      return "correct the path or save elsewhere";
  }
}

[[noreturn]] void fail_to_write(int error, const fs::path& path, const fs::path& folder) {
  throw FileError(fmt::format("cannot write '{}': {}; {}", path.string(),
                              std::generic_category().message(error), advice(error, folder)));
}

// Removes the temporary file in its destructor, unless it was renamed.
class Temporary {
 public:
  explicit Temporary(const fs::path& path) : path_(path) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!became_file_) unlink(path_.c_str());
  }
  void became_file() { became_file_ = true; }

 private:
  fs::path path_;
  bool became_file_ = false;
};

// The target of a symbolic link or of a chain of links. The target need not exist.
fs::path follow_links(const fs::path& path) {
  fs::path target = path;
  for (int i = 0; i <= most_links; ++i) {
    std::error_code ignored;
    if (!fs::is_symlink(fs::symlink_status(target, ignored))) return target;
    target = target.parent_path() / fs::read_symlink(target, ignored);  // an absolute one replaces the parent
  }
  fail_to_write(ELOOP, path, path.parent_path());
}

// Waits for other writers of the file. The lock is one of fcntl, which belongs to the descriptor. The file
// keeps it under its final name until the folder is on disk, and HDF5 refuses a file that is locked by flock:
// on local disks the two kinds do not see each other.
void lock_against_writers(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  uninterrupted([&] { return fcntl(file, F_OFD_SETLKW, &whole); });  // some file systems have no locks
}

// Opens the temporary file and locks it against other writers. During the wait for the lock, its holder may
// have renamed the file. Then the open file is the saved file itself, which must not be changed.
int open_locked(const char* name) {
  while (true) {
    const int file =
        uninterrupted([&] { return open(name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666); });
    if (file < 0) return -1;
    lock_against_writers(file);
    struct stat held, named;
    if (fstat(file, &held) == 0 && lstat(name, &named) == 0 && held.st_dev == named.st_dev &&
        held.st_ino == named.st_ino) {
      return file;
    }
    close(file);
  }
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = uninterrupted([&] { return write(file, bytes.data(), bytes.size()); });
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool force_to_disk(int file) {
  return uninterrupted([&] { return fsync(file); }) == 0;
}

}  // namespace

void write_file_atomically(const fs::path& path, std::string_view bytes, SymbolicLinks links) {
  // 1. Find the place: a file, a link to replace, or nothing yet, in a folder that exists.
  const fs::path target = links == SymbolicLinks::followed ? follow_links(path) : path;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  struct stat old;
  const bool exists = lstat(target.c_str(), &old) == 0, replaces = exists && !S_ISLNK(old.st_mode);
  if (!target.has_filename() || (replaces && !S_ISREG(old.st_mode))) {
    throw FileError(
        fmt::format("cannot write '{}': it is not a regular file; give the name of a file", path.string()));
  }
  if (replaces && access(target.c_str(), W_OK) != 0) {
    throw FileError(
        fmt::format("cannot write '{}': it is there already and read-only; make it writable or save "
                    "elsewhere",
                    path.string()));
  }
  const Descriptor folder_descriptor(
      uninterrupted([&] { return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (folder_descriptor < 0) fail_to_write(errno, path, folder);

  // 2. Write everything to the temporary and wait for the disk.
  const fs::path name = folder / ("." + target.filename().string() + ".tmp");
  const Descriptor file(open_locked(name.c_str()));
  if (file < 0) fail_to_write(errno, path, folder);
  Temporary temporary(name);  // is removed before `file` is closed, which releases the lock
  if (uninterrupted([&] { return ftruncate(file, 0); }) != 0) fail_to_write(errno, path, folder);
  if (replaces && uninterrupted([&] { return fchmod(file, old.st_mode & 07777); }) != 0) {
    fail_to_write(errno, path, folder);
  }
  if (!write_all(file, bytes) || !force_to_disk(file)) fail_to_write(errno, path, folder);

  // 3. Rename it, and synchronize the folder to the disk.
  if (rename(name.c_str(), target.c_str()) != 0) fail_to_write(errno, path, folder);
  temporary.became_file();
  // Some file systems cannot synchronize folders (EINVAL).
  if (!force_to_disk(folder_descriptor) && errno != EINVAL) fail_to_write(errno, path, folder);
}

}  // namespace orthornn
