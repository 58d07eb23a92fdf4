#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>

namespace orthornn {

/// CRC-32 (zlib's) of bytes.
inline std::uint32_t crc32_of(const void* bytes, std::size_t count) {
  return static_cast<std::uint32_t>(crc32_z(0, static_cast<const unsigned char*>(bytes), count));
}

}  // namespace orthornn
