#include "io/png.hpp"

#include <zlib.h>

#include <new>
#include <vector>

#include "io/crc32_of.hpp"

namespace orthornn::png {
namespace {

std::string word(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255U);
  return bytes;
}

std::string half_word(int value) { return word(static_cast<std::uint32_t>(value)).substr(2); }

std::string chunk(const char* type, const std::string& content) {
  const std::string all = type + content;
  return word(static_cast<std::uint32_t>(content.size())) + all + word(crc32_of(all.data(), all.size()));
}

std::string size_of(const GrayImage& image) {
  return word(static_cast<std::uint32_t>(image.width)) + word(static_cast<std::uint32_t>(image.height));
}

/// 8 bits of gray, deflated, not interlaced.
std::string header(const GrayImage& image) {
  return std::string(signature) + chunk("IHDR", size_of(image) + std::string("\x08\0\0\0\0", 5));
}

/// Rows as differences to the row above, which frames with large areas of one gray have small.
std::string packed(const GrayImage& image) {
  constexpr std::uint8_t up = 2;
  const auto width = static_cast<std::size_t>(image.width);
  std::vector<std::uint8_t> rows;
  for (std::size_t first = 0; first < image.pixels.size(); first += width) {
    rows.push_back(up);
    for (std::size_t i = first; i < first + width; ++i)
      rows.push_back(static_cast<std::uint8_t>(image.pixels[i] - (first == 0 ? 0 : image.pixels[i - width])));
  }
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string bytes(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(bytes.data()), &size, rows.data(), static_cast<uLong>(rows.size()),
                Z_BEST_COMPRESSION) != Z_OK)
    throw std::bad_alloc();
  bytes.resize(size);
  return bytes;
}

}  // namespace

std::string still(const GrayImage& image) {
  return header(image) + chunk("IDAT", packed(image)) + chunk("IEND", "");
}

std::string animation(std::span<const GrayImage> frames, int milliseconds) {
  std::string bytes =
      header(frames.front()) + chunk("acTL", word(static_cast<std::uint32_t>(frames.size())) + word(0));
  std::uint32_t sequence = 0;
  for (const GrayImage& frame : frames) {
    const std::string no_offset = word(0) + word(0), replaced("\0\0", 2);
    bytes += chunk("fcTL", word(sequence++) + size_of(frame) + no_offset + half_word(milliseconds) +
                               half_word(1000) + replaced);
    const bool is_first = sequence == 1;
    bytes += is_first ? chunk("IDAT", packed(frame)) : chunk("fdAT", word(sequence++) + packed(frame));
  }
  return bytes + chunk("IEND", "");
}

}  // namespace orthornn::png
