#include "tasks/video/own_clips.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>

#include "core/free_memory.hpp"
#include "core/quantity.hpp"
#include "io/crc32_of.hpp"
#include "io/gray_image.hpp"
#include "io/npz_file.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "tasks/video/name_order.hpp"

namespace orthornn {
namespace {

namespace fs = std::filesystem;

// Windows of the structural similarity have 7 rows and columns.
constexpr Index least_side = 7, most_side = 8192;

[[noreturn]] void refuse_clips(const fs::path& place, const std::string& why) {
  throw FileError(fmt::format("{}: {}", place.string(), why));
}

void check_frame_size(const fs::path& place, Index height, Index width) {
  if (std::min(height, width) >= least_side && std::max(height, width) <= most_side) return;
  refuse_clips(
      place, fmt::format("its frames have {} x {} pixels; expected {} to {} rows and as many columns", height,
                         width, least_side, most_side));
}

void check_memory(const fs::path& place, Index frames, Index height, Index width, Index bytes_of_pixel) {
  const double bytes =
      static_cast<double>(frames) * static_cast<double>(height * width) * static_cast<double>(bytes_of_pixel);
  const std::optional<double> free = free_bytes();
  if (!free || bytes <= *free) return;
  refuse_clips(
      place, fmt::format("its {} frames of {} x {} pixels take {:.1f} GB, and {:.1f} GB of memory are free; "
                         "leave some out, or make them smaller",
                         frames, height, width, bytes / 1e9, *free / 1e9));
}

/// What is in a folder.
struct FolderContent {
  std::vector<fs::path> images = {}, folders = {};
  Index others = 0;
};

FolderContent content_of(const fs::path& folder) {
  FolderContent found;
  std::error_code error;
  for (fs::directory_iterator next(folder, error), end; !error && next != end; next.increment(error)) {
    const fs::path path = next->path();
    if (path.filename().string().starts_with('.')) continue;  // what systems leave in folders
    std::error_code of_entry;
    const fs::file_status status = fs::status(path, of_entry);
    if (of_entry)
      refuse_clips(path, fmt::format("it cannot be looked at ({}); take it away", of_entry.message()));
    if (fs::is_directory(status)) {
      found.folders.push_back(path);
    } else if (is_image_name(path)) {
      found.images.push_back(path);
    } else {
      ++found.others;
    }
  }
  if (error) refuse_clips(folder, fmt::format("the folder cannot be read ({})", error.message()));
  std::ranges::sort(found.images, comes_before);
  std::ranges::sort(found.folders, comes_before);
  return found;
}

/// The files of each clip, in the order of the clips.
std::vector<std::vector<fs::path>> clips_in(const fs::path& folder) {
  const FolderContent found = content_of(folder);
  if (!found.images.empty() && !found.folders.empty()) {
    refuse_clips(folder,
                 fmt::format("it has {} and {}; expected the images of one clip, or a folder for each clip",
                             quantity(std::ssize(found.images), "image"),
                             quantity(std::ssize(found.folders), "folder")));
  }
  const auto refuse_empty = [](const fs::path& place, const FolderContent& content) {
    refuse_clips(
        place,
        fmt::format("it has no frame, {} and {}; expected images .png or .pgm, one for each frame",
                    quantity(content.others, "other file"), quantity(std::ssize(content.folders), "folder")));
  };
  if (!found.images.empty()) return {found.images};
  if (found.folders.empty()) refuse_empty(folder, found);
  std::vector<std::vector<fs::path>> clips;
  for (const fs::path& clip : found.folders) {
    FolderContent of_clip = content_of(clip);
    if (of_clip.images.empty()) refuse_empty(clip, of_clip);
    if (!of_clip.folders.empty())
      refuse_clips(clip, fmt::format("it has {} beside its images; expected the images of one clip alone",
                                     quantity(std::ssize(of_clip.folders), "folder")));
    clips.push_back(std::move(of_clip.images));
  }
  return clips;
}

OwnClips read_folder(const fs::path& folder, Index least_bytes) {
  OwnClips clips;
  const std::vector<std::vector<fs::path>> files = clips_in(folder);
  for (const std::vector<fs::path>& of_clip : files) {
    clips.lengths.push_back(std::ssize(of_clip));
    clips.names.push_back(of_clip.front().parent_path().filename().string());
  }
  for (const std::vector<fs::path>& of_clip : files) {
    for (const fs::path& file : of_clip) {
      const GrayImage image = read_gray_image(file);
      if (clips.bytes.empty()) {
        check_frame_size(file, image.height, image.width);
        check_memory(folder, clips.frame_count(), image.height, image.width, std::max<Index>(least_bytes, 1));
        clips.height = image.height;
        clips.width = image.width;
        clips.bytes.reserve(static_cast<std::size_t>(clips.frame_count() * image.height * image.width));
      }
      if (image.height != clips.height || image.width != clips.width) {
        refuse_clips(file,
                     fmt::format("it has {} x {} pixels, and the first frame has {} x {}; expected frames of "
                                 "one size",
                                 image.height, image.width, clips.height, clips.width));
      }
      clips.bytes.insert(clips.bytes.end(), image.pixels.begin(), image.pixels.end());
    }
  }
  return clips;
}

/// An array of a file, by its name in messages.
struct NamedArray {
  std::string name;
  NumpyArray header;
};

/// Adds the clips of an array, but for their pixels, of which only the number is added.
void add_shape(const NamedArray& array, OwnClips& clips, Index& pixels) {
  const Shape& shape = array.header.shape;
  if (array.header.kind != "u1" && array.header.is_integer) {
    refuse_clips(array.name,
                 fmt::format("its numbers are of type '{}'; expected grays of uint8 from 0 to 255, or "
                             "floating-point numbers from 0 to 1: convert it before it is written (astype)",
                             array.header.kind));
  }
  if (shape.rank() < 3 || shape.rank() > 4 || shape.count() == 0) {
    refuse_clips(array.name,
                 fmt::format("its shape is {}; expected [clips, frames, rows, columns] or [frames, rows, "
                             "columns] of gray frames, none of them 0",
                             to_string(shape)));
  }
  check_frame_size(array.name, shape[-2], shape[-1]);
  if (clips.lengths.empty()) {
    clips.height = shape[-2];
    clips.width = shape[-1];
  }
  if (clips.height != shape[-2] || clips.width != shape[-1]) {
    refuse_clips(array.name,
                 fmt::format("its frames have {} x {} pixels, and those of the first array {} x {}; "
                             "expected frames of one size",
                             shape[-2], shape[-1], clips.height, clips.width));
  }
  // Frames are no more than pixels, so that their number fits too.
  if (__builtin_add_overflow(pixels, shape.count(), &pixels))
    refuse_clips(array.name, "its frames and those of the arrays before it are more than any memory holds");
  constexpr Index most_clips = 1'000'000;
  const Index count = shape.rank() == 4 ? shape[0] : 1;
  if (count > most_clips || std::ssize(clips.lengths) + count > most_clips)
    refuse_clips(array.name, fmt::format("it has {} clips; expected {} at most", count, most_clips));
  clips.lengths.insert(clips.lengths.end(), static_cast<std::size_t>(count), shape[-3]);
}

/// Where the pixel of this number lies in an array: [clip, frame, row, column].
std::string place_in(const Shape& shape, Index pixel) {
  std::string place;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place = fmt::format("{}{}{}", pixel % shape[axis], place.empty() ? "" : ", ", place);
    pixel /= shape[axis];
  }
  return place;
}

/// Floats of an array, each of which is a gray. Those before its first one are of other arrays.
void add_reals(const NamedArray& array, std::size_t first, std::span<const float> piece,
               std::vector<float>& reals) {
  for (const float x : piece) {
    if (!is_gray(x)) {
      refuse_clips(
          array.name,
          fmt::format("pixel [{}] {}", place_in(array.header.shape, static_cast<Index>(reals.size() - first)),
                      no_gray(x)));
    }
    reals.push_back(x);
  }
}

/// Reads arrays of one type. `read_bytes` and `read_reals` get the number of an array and a function that
/// takes its numbers.
template <class ReadBytes, class ReadReals>
OwnClips read_clip_arrays(const fs::path& file, const std::vector<NamedArray>& arrays, Index least_bytes,
                          const ReadBytes& read_bytes, const ReadReals& read_reals) {
  OwnClips clips;
  Index all_pixels = 0;
  const bool are_bytes = arrays.front().header.is_integer;
  for (const NamedArray& array : arrays) {
    add_shape(array, clips, all_pixels);
    if (array.header.is_integer != are_bytes)
      refuse_clips(
          file, fmt::format("'{}' and '{}' are of different types; expected all uint8, or all floating-point "
                            "numbers",
                            arrays.front().name, array.name));
  }
  check_memory(file, clips.frame_count(), clips.height, clips.width,
               std::max<Index>(least_bytes, are_bytes ? 1 : sizeof(float)));
  const auto pixels = static_cast<std::size_t>(all_pixels);
  are_bytes ? clips.bytes.reserve(pixels) : clips.reals.reserve(pixels);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (are_bytes) {
      read_bytes(i, [&](std::span<const std::uint8_t> piece) {
        clips.bytes.insert(clips.bytes.end(), piece.begin(), piece.end());
      });
    } else {
      const std::size_t first = clips.reals.size();
      read_reals(i, [&](std::span<const float> piece) { add_reals(arrays[i], first, piece, clips.reals); });
    }
  }
  return clips;
}

OwnClips read_npz_clips(const fs::path& file, Index least_bytes) {
  const std::vector<std::string> names = names_in_npz(file);
  if (names.empty()) refuse_clips(file, "it has no arrays; expected clips, as numpy.savez writes them");
  std::vector<NamedArray> arrays;
  for (const auto& [name, header] : list_npz(file, names))
    arrays.push_back({fmt::format("{} ({})", file.string(), name), header});
  return read_clip_arrays(
      file, arrays, least_bytes,
      [&](std::size_t i, const auto& take) { read_npz_in_pieces<std::uint8_t>(file, names[i], take); },
      [&](std::size_t i, const auto& take) { read_npz_in_pieces<float>(file, names[i], take); });
}

OwnClips read_npy_clips(const fs::path& file, Index least_bytes) {
  return read_clip_arrays(
      file, {{file.string(), npy_header(file)}}, least_bytes,
      [&](std::size_t, const auto& take) { read_npy_in_pieces<std::uint8_t>(file, take); },
      [&](std::size_t, const auto& take) { read_npy_in_pieces<float>(file, take); });
}

}  // namespace

std::string no_gray(float x) {
  return fmt::format("is {}; expected 0 for black to 1 for white{}", x,
                     std::isfinite(x) && x > 1 ? ": divide by the largest value before it is written" : "");
}

Index OwnClips::frame_count() const { return std::reduce(lengths.begin(), lengths.end(), Index{0}); }

Tensor<float> OwnClips::grays() const {
  Tensor<float> found;
  found.reserve({frame_count(), height * width});
  if (bytes.empty()) {
    std::ranges::copy(reals, found.data());
  } else {
    std::ranges::transform(bytes, found.data(),
                           [](std::uint8_t gray) { return static_cast<float>(gray) / 255.0F; });
  }
  return found;
}

std::string OwnClips::checksum() const {
  const std::uint32_t of_lengths = crc32_of(lengths.data(), lengths.size() * sizeof(Index)),
                      of_pixels = bytes.empty() ? crc32_of(reals.data(), reals.size() * sizeof(float))
                                                : crc32_of(bytes.data(), bytes.size());
  return fmt::format("{} clips of {} x {}, CRC-32 {:08x} {:08x}", lengths.size(), height, width, of_lengths,
                     of_pixels);
}

OwnClips read_own_clips(const fs::path& data, Index least_bytes) {
  const std::string expected = fmt::format("expected {}", VideoOptions::own_forms);
  if (data.empty()) throw FileError(fmt::format("task video: clips of one's own need --data; {}", expected));
  std::error_code error;
  const fs::file_status status = fs::status(data, error);
  if (fs::is_directory(status)) return read_folder(data, least_bytes);
  if (!fs::is_regular_file(status))
    refuse_clips(data, fmt::format("it is no folder and no file{}; {}",
                                   error ? fmt::format(" ({})", error.message()) : "", expected));
  if (data.extension() == ".npz") return read_npz_clips(data, least_bytes);
  if (data.extension() == ".npy") return read_npy_clips(data, least_bytes);
  refuse_clips(data, expected);
}

}  // namespace orthornn
