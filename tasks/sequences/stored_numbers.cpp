#include "tasks/sequences/stored_numbers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace orthornn {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

/// The folder of temporary files.
std::string temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
}

/// Opens an empty file that has no name any more.
int open_temporary(const std::filesystem::path& source) {
  std::string path = temporary_folder() + "/orthornn-XXXXXX";
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) {
    throw FileError(fmt::format(
        "{}: its numbers do not fit in memory, and no temporary file can be made in '{}' ({}); name another "
        "folder by the environment variable TMPDIR",
        source.string(), temporary_folder(), reason(errno)));
  }
  unlink(path.c_str());
  return descriptor;
}

}  // namespace

NumberFile::NumberFile(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {
  if (descriptor_ < 0) fail(fmt::format("it cannot be opened ({})", reason(errno)));
}

NumberFile::NumberFile(const std::filesystem::path& file)
    : NumberFile(open(file.c_str(), O_RDONLY | O_CLOEXEC), file.string()) {
  opened_ = state();
}

std::unique_ptr<NumberFile> NumberFile::temporary(const std::filesystem::path& source) {
  return std::unique_ptr<NumberFile>(
      new NumberFile(open_temporary(source),
                     fmt::format("temporary file of {} in {}", source.string(), temporary_folder())));
}

void NumberFile::fail(const std::string& why) const { throw FileError(fmt::format("{}: {}", name_, why)); }

NumberFile::State NumberFile::state() const {
  struct stat found;
  if (fstat(descriptor_, &found) != 0) fail(fmt::format("it cannot be read ({})", reason(errno)));
  return {found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

void NumberFile::append(const void* bytes, std::size_t count) {
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = uninterrupted([&] { return write(descriptor_, from, count); });
    if (written < 0) {
      fail(
          fmt::format("it cannot be written ({}); free space there, or name another folder by the "
                      "environment variable TMPDIR",
                      reason(errno)));
    }
    from += written;
    count -= static_cast<std::size_t>(written);
  }
}

void NumberFile::read(std::uint64_t first, std::size_t count, void* to) const {
  char* next = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t found =
        uninterrupted([&] { return pread(descriptor_, next, count, static_cast<off_t>(first)); });
    if (found < 0) fail(fmt::format("it cannot be read ({}); check the disk", reason(errno)));
    if (found == 0) break;
    next += found;
    first += static_cast<std::uint64_t>(found);
    count -= static_cast<std::size_t>(found);
  }
  // What was read before a change is sound, and what came after it is not used.
  if (count > 0 || (opened_ && state() != *opened_))
    fail("it has changed since it was opened; begin again, and leave it as it is");
}

void NumberFile::expect(std::uint64_t first, std::size_t count) const {
  posix_fadvise(descriptor_, static_cast<off_t>(first), static_cast<off_t>(count), POSIX_FADV_WILLNEED);
}

}  // namespace orthornn
