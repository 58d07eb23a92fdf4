#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace orthornn::testing {

/// Writes a file of exactly these bytes and returns its path.
inline std::filesystem::path write_text(const std::filesystem::path& file, std::string_view text) {
  std::ofstream stream(file, std::ios::binary);
  if (!(stream << text).flush()) throw std::runtime_error("cannot write " + file.string());
  return file;
}

}  // namespace orthornn::testing
