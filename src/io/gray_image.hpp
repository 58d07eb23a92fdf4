#pragma once
// Gray images in files: PNG and PGM.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// An image of gray pixels, 0 for black to 255 for white, row by row.
struct GrayImage {
  Index height = 0, width = 0;
  std::vector<std::uint8_t> pixels = {};
};

/// Whether the name of a file ends as those of images that `read_gray_image` reads.
bool is_image_name(const std::filesystem::path& file);

/// Reads a PNG file of gray pixels of 1 to 8 bits that is not interlaced, or a binary PGM file of up to 256
/// grays; which of them, its first bytes tell. Throws FileError for another file, for one that is cut off or
/// damaged, and for more than 2^26 pixels.
GrayImage read_gray_image(const std::filesystem::path& file);

}  // namespace orthornn
