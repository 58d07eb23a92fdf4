#pragma once
// Videos of a user's own.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Whether a number is a gray, from 0 for black to 1 for white.
inline bool is_gray(float x) { return x >= 0 && x <= 1; }
/// What a message says of a pixel that is no gray, after its name.
std::string no_gray(float x);

/// Clips of gray frames of one size, one after the other.
struct OwnClips {
  /// Of a frame.
  Index height = 0, width = 0;
  /// Frames of each clip.
  std::vector<Index> lengths = {};
  /// Names of the folders of the clips; empty where clips have no names.
  std::vector<std::string> names = {};
  /// Pixels of all frames, 0 for black to 255 for white; empty where they are floating-point numbers.
  std::vector<std::uint8_t> bytes = {};
  /// Pixels of all frames from 0 to 1; empty where they are bytes.
  std::vector<float> reals = {};

  Index frame_count() const;
  /// Grays from 0 to 1 of all pixels, [frames, height width].
  Tensor<float> grays() const;
  /// The number of clips, rows and columns of a frame, and a checksum of pixels and lengths, as a text.
  std::string checksum() const;
};

/// Reads clips: a folder of images of one clip or a folder of such folders, or an .npy or .npz file of arrays
/// [clips, frames, rows, columns] or [frames, rows, columns]. Throws FileError for what is no such thing, and
/// for clips that do not fit the free memory. `least_bytes` are those of a pixel that the caller takes at
/// once of clips and what it makes of them, where that is more than the clips take.
OwnClips read_own_clips(const std::filesystem::path& data, Index least_bytes = 0);

}  // namespace orthornn
