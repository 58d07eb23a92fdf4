#pragma once
// Writes .npy and .npz files, sound or not, for the tests that read them.

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/zip_writer.hpp"

namespace orthornn::testing {

/// The bytes of an .npy file with this header, in a version of the format.
inline std::string npy_with_header(const std::string& header, const std::string& numbers, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  bytes += static_cast<char>(header.size() % 256);
  bytes += static_cast<char>(header.size() / 256);
  if (version >= 2) bytes.append(2, '\0');
  return bytes + header + numbers;
}

/// The bytes of an .npy file.
inline std::string npy(const std::string& type, const std::string& shape, const std::string& numbers,
                       const std::string& order = "False") {
  return npy_with_header(
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }\n", numbers);
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
