#include "pages/whole_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "orthornn/core/error.hpp"

namespace orthornn::program {

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

}  // namespace orthornn::program
