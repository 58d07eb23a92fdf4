#include "commands/appended_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "orthornn/core/error.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn::program {

void AppendedFile::start(const std::string& text) {
  write_file_atomically(path_, text);
  size_ = text.size();
}

void AppendedFile::append(const std::string& piece, const std::function<std::string()>& before) {
  std::error_code status;
  if (!size_ || !std::filesystem::exists(path_, status)) start(before());
  if (piece.empty()) return;
  const auto fail = [&](int error) {
    throw FileError(fmt::format("cannot write '{}': {}", path_.string(), std::strerror(error)));
  };
  if (has_part_ && !cut_part()) fail(errno);
  // It does not make the file: one that has just been removed would lack all pieces before.
  const auto open = [&] {
    return std::fstream(path_, std::ios::in | std::ios::out | std::ios::ate | std::ios::binary);
  };
  std::fstream stream = open();
  if (!stream.is_open() && !std::filesystem::exists(path_, status)) {
    start(before());
    stream = open();
  }
  stream << piece << std::flush;
  if (!stream) {
    const int error = errno;
    has_part_ = true;
    stream.close();  // it tries once more to write the rest
    cut_part();
    fail(error);
  }
  *size_ += piece.size();
}

bool AppendedFile::cut_part() {
  std::error_code status;
  const std::uintmax_t size = std::filesystem::file_size(path_, status);
  if (!status && size > *size_) std::filesystem::resize_file(path_, *size_, status);
  errno = status.value();
  has_part_ = errno != 0;
  return !has_part_;
}

}  // namespace orthornn::program
