#pragma once
// Writes .npy and .npz files, sound or not, for the tests that read them.

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/zip_writer.hpp"

namespace orthornn::testing {

/// The bytes of an .npy file.
inline std::string npy(const std::string& type, const std::string& shape, const std::string& numbers,
                       const std::string& order = "False") {
  const std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }\n";
  std::string bytes = "\x93NUMPY";
  bytes += '\x01';
  bytes += '\0';
  bytes += static_cast<char>(header.size() % 256);
  bytes += static_cast<char>(header.size() / 256);
  return bytes + header + numbers;
}

template <class Numbers>
std::string raw_bytes(const Numbers& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     static_cast<std::size_t>(numbers.size()) * sizeof(*numbers.data()));
}

/// Writes arrays by their names without ".npy".
inline void write_npz(const std::filesystem::path& file, ZipMembers members) {
  for (auto& [name, bytes] : members) name += ".npy";
  write_zip(file, members);
}

}  // namespace orthornn::testing
