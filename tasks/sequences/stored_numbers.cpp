#include "tasks/sequences/stored_numbers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

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

NumberFile::State NumberFile::state_of(const struct stat& found) {
  return {found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

NumberFile::State NumberFile::state() const {
  struct stat found;
  if (fstat(descriptor_, &found) != 0) fail(fmt::format("it cannot be read ({})", reason(errno)));
  return state_of(found);
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
  const ssize_t found = read_at(descriptor_, first, count, to);
  if (found < 0) fail(fmt::format("it cannot be read ({}); check the disk", reason(errno)));
  // What was read before a change is sound, and what came after it is not used.
  if (std::cmp_less(found, count) || (opened_ && state() != *opened_)) fail_changed();
}

void NumberFile::check_is(const std::filesystem::path& file) const {
  struct stat found;
  if (stat(file.c_str(), &found) != 0 || state() != *opened_ || state_of(found) != *opened_) fail_changed();
}

void NumberFile::fail_changed() const {
  fail("it has changed since it was opened; begin again, and leave it as it is");
}

void NumberFile::expect(std::uint64_t first, std::size_t count) const {
  posix_fadvise(descriptor_, static_cast<off_t>(first), static_cast<off_t>(count), POSIX_FADV_WILLNEED);
}

}  // namespace orthornn
