#pragma once
// PNG images that are written: one, or an animation (APNG).

#include <span>
#include <string>
#include <string_view>

#include "io/gray_image.hpp"

namespace orthornn::png {

/// The first bytes of every PNG file.
inline constexpr std::string_view signature = "\x89PNG\r\n\x1a\n";

/// The bytes of a PNG file of 8-bit gray.
std::string still(const GrayImage& image);

/// The bytes of an animated PNG file, which repeats the frames for ever. All have one size. Programs that
/// know no animations show the first frame.
std::string animation(std::span<const GrayImage> frames, int milliseconds);

}  // namespace orthornn::png
