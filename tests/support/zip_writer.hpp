#pragma once
// Writes zip archives, sound or not, for the tests that read them.

#include <zip.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/text_file.hpp"

namespace orthornn::testing {

/// Names with their contents; a name that ends with / is a folder.
using ZipMembers = std::vector<std::pair<std::string, std::string>>;

inline void write_zip(const std::filesystem::path& path, const ZipMembers& members) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  if (archive == nullptr) throw std::runtime_error("cannot write " + path.string());
  bool added = true;
  for (const auto& [name, content] : members) {
    if (name.ends_with('/')) {
      added = added && zip_dir_add(archive, name.c_str(), 0) >= 0;
    } else {
      zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
      added = added && zip_file_add(archive, name.c_str(), source, ZIP_FL_OVERWRITE) >= 0;
    }
  }
  if (zip_close(archive) != 0 || !added) throw std::runtime_error("cannot write " + path.string());
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Calls `change(bytes, place)` for the header of each member in the archive's central directory, which says
/// how the member is read: flags at place + 8, packed size at + 20, size at + 24.
template <class Change>
void change_directory(const std::filesystem::path& path, const Change& change) {
  std::string bytes = read_text(path);
  const std::string signature = "PK\x01\x02";
  int changed = 0;
  for (std::size_t place = bytes.find(signature); place != std::string::npos;
       place = bytes.find(signature, place + 1)) {
    change(bytes, place);
    ++changed;
  }
  if (changed == 0) throw std::runtime_error(path.string() + " has no central directory");
  write_text(path, bytes);
}

}  // namespace orthornn::testing
