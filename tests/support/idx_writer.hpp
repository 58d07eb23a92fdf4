#pragma once
// Writes IDX files, sound or not, for the tests that read them.

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace orthornn::testing {

using Bytes = std::vector<std::uint8_t>;

/// Magic number of unsigned bytes, big-endian sizes, data.
inline Bytes idx_bytes(const std::vector<std::uint32_t>& sizes, const Bytes& data) {
  Bytes bytes{0, 0, 8, static_cast<std::uint8_t>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(size >> shift));
  }
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

inline void write_plain(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline void write_gzipped(const std::filesystem::path& path, const Bytes& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  const auto size = static_cast<unsigned>(bytes.size());
  const bool written = file != nullptr && gzwrite(file, bytes.data(), size) == static_cast<int>(size);
  if (gzclose(file) != Z_OK || !written) throw std::runtime_error("cannot write " + path.string());
}

inline Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace orthornn::testing
