#include "io/gray_image.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "io/crc32_of.hpp"
#include "io/png.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

using ByteView = std::span<const std::uint8_t>;

constexpr Index most_image_pixels = Index{1} << 26;

/// A file that is refused in one sentence.
class ImageFile {
 public:
  explicit ImageFile(const std::filesystem::path& file) : name_(file.string()) {
    constexpr std::uintmax_t most_bytes = std::uintmax_t{1} << 28;
    std::error_code error;
    if (!std::filesystem::is_regular_file(std::filesystem::status(file, error)))
      fail(error ? fmt::format("it cannot be looked at ({})", error.message()) : "it is no regular file");
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    if (error) fail(fmt::format("its size cannot be read ({})", error.message()));
    if (size > most_bytes) fail("it is larger than 256 MiB, the limit of an image");
    bytes_.resize(size);
    std::ifstream stream(file, std::ios::binary);
    stream.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(size));
    if (!stream) fail("it cannot be read");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: {}", name_, what));
  }
  [[noreturn]] void fail_cut_off() const { fail("it is cut off; use another copy of the image"); }
  /// ByteView of the file from `first` on.
  ByteView bytes(std::size_t first, std::size_t count) const {
    if (first > bytes_.size() || count > bytes_.size() - first) fail_cut_off();
    return ByteView(bytes_).subspan(first, count);
  }
  std::size_t size() const { return bytes_.size(); }
  bool begins_with(std::string_view text) const {
    return bytes_.size() >= text.size() &&
           std::equal(text.begin(), text.end(), bytes_.begin(),
                      [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
  }
  /// The image without its pixels.
  GrayImage sized(std::uint64_t height, std::uint64_t width) const {
    constexpr std::uint64_t longest = std::uint64_t{1} << 26;
    if (height == 0 || width == 0 || height > longest || width > longest ||
        height * width > most_image_pixels) {
      fail(fmt::format("its size is {} x {} pixels; expected 1 to 2^26 pixels", height, width));
    }
    return {.height = static_cast<Index>(height), .width = static_cast<Index>(width)};
  }

 private:
  std::string name_;
  std::vector<std::uint8_t> bytes_;
};

std::uint32_t big_endian(ByteView bytes) {
  std::uint32_t value = 0;
  for (const std::uint8_t byte : bytes.first(4)) value = value << 8 | byte;
  return value;
}

/// What the chunks of a PNG file hold.
struct PngParts {
  GrayImage image = {};
  Index bits = 8;  ///< Of a pixel.
  std::vector<std::uint8_t> packed = {};
};

/// Size and form of the image. Throws for another form than gray pixels in rows.
void read_png_header(const ImageFile& file, ByteView header, PngParts& parts) {
  constexpr std::array<const char*, 7> forms = {"gray",           "of another form", "RGB",
                                                "with a palette", "gray with alpha", "of another form",
                                                "RGB with alpha"};
  parts.image = file.sized(big_endian(header.subspan(4)), big_endian(header));
  const unsigned bits = header[8], form = header[9], interlaced = header[12];
  if (form != 0 || bits > 8 || bits == 0 || (bits & (bits - 1)) != 0 || interlaced != 0) {
    file.fail(fmt::format(
        "it is {} of {} bits{}; expected gray of 1 to 8 bits, not interlaced: convert it, "
        "for example by mogrify -colorspace Gray -depth 8 -interlace none",
        form < forms.size() ? forms[form] : "of another form", bits, interlaced != 0 ? ", interlaced" : ""));
  }
  parts.bits = bits;
}

PngParts read_chunks(const ImageFile& file) {
  PngParts parts;
  std::size_t place = png::signature.size();
  for (bool is_first = true;; is_first = false) {
    const std::size_t length = big_endian(file.bytes(place, 4));
    const ByteView chunk = file.bytes(place + 4, length + 4);  // with its type
    if (crc32_of(chunk.data(), chunk.size()) != big_endian(file.bytes(place + 8 + length, 4)))
      file.fail("it is damaged: a checksum is wrong; use another copy of the image");
    const std::string_view type(reinterpret_cast<const char*>(chunk.data()), 4);
    const ByteView content = chunk.subspan(4);
    if (is_first != (type == "IHDR") || (is_first && length != 13))
      file.fail("it is no sound PNG image: its header is not where it should be");
    if (is_first) read_png_header(file, content, parts);
    if (type == "IDAT") parts.packed.insert(parts.packed.end(), content.begin(), content.end());
    if (type == "IEND") return parts;
    place += length + 12;
  }
}

/// Undoes the filter of a row (PNG specification, section 9.2). Pixels of 8 bits or fewer are filtered by
/// bytes.
void unfilter(const ImageFile& file, unsigned filter, std::span<std::uint8_t> row, ByteView above) {
  if (filter > 4) file.fail(fmt::format("a row has the filter {}; expected 0 to 4", filter));
  for (std::size_t i = 0; i < row.size(); ++i) {
    const int a = i > 0 ? row[i - 1] : 0, b = above.empty() ? 0 : above[i],
              c = i > 0 && !above.empty() ? above[i - 1] : 0;
    const int to_a = std::abs(b - c), to_b = std::abs(a - c), to_c = std::abs(a + b - 2 * c);
    const int paeth = to_a <= to_b && to_a <= to_c ? a : to_b <= to_c ? b : c;
    const std::array<int, 5> predicted = {0, a, b, (a + b) / 2, paeth};
    row[i] = static_cast<std::uint8_t>(row[i] + predicted[filter]);
  }
}

GrayImage read_png(const ImageFile& file) {
  PngParts parts = read_chunks(file);
  GrayImage& image = parts.image;
  const auto height = static_cast<std::size_t>(image.height), width = static_cast<std::size_t>(image.width),
             bits = static_cast<std::size_t>(parts.bits), row = (width * bits + 7) / 8 + 1;
  // Deflate makes nothing 1032 times smaller, and a header may promise anything.
  const std::size_t expected = height * row;
  if (expected / 1032 > parts.packed.size()) file.fail_cut_off();
  // With room for one byte more: only then can more pixels be told from a stream that is cut off.
  std::vector<std::uint8_t> raw(expected + 1);
  uLongf found = raw.size();
  const int end =
      uncompress(raw.data(), &found, parts.packed.data(), static_cast<uLong>(parts.packed.size()));
  if (found > expected)
    file.fail(fmt::format("its pixels take more than the {} bytes of its size; use another copy of the image",
                          expected));
  if (end != Z_OK || found != expected)
    file.fail(
        fmt::format("its pixels are damaged or cut off: {} bytes are expected, and {} can be read; use "
                    "another copy of the image",
                    expected, found));
  image.pixels.resize(height * width);
  const unsigned most = (1U << bits) - 1;
  ByteView above;
  for (std::size_t y = 0; y < height; ++y) {
    const std::span<std::uint8_t> bytes = std::span(raw).subspan(y * row + 1, row - 1);
    unfilter(file, raw[y * row], bytes, above);
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t bit = x * bits;
      const unsigned gray = bytes[bit / 8] >> (8 - bits - bit % 8) & most;
      image.pixels[y * width + x] = static_cast<std::uint8_t>(gray * (255 / most));
    }
    above = bytes;
  }
  return std::move(image);
}

/// The next whole number of a PGM header, after white space and comments.
std::uint64_t header_number(const ImageFile& file, std::size_t& place) {
  const auto next = [&] { return static_cast<char>(file.bytes(place, 1)[0]); };
  while (std::isspace(static_cast<unsigned char>(next())) != 0 || next() == '#') {
    if (next() == '#') {
      while (next() != '\n') ++place;
    }
    ++place;
  }
  std::uint64_t number = 0;
  const std::size_t first = place;
  for (; next() >= '0' && next() <= '9'; ++place) {
    if (place - first > 9) file.fail("its header has a number of more than 10 digits");
    number = 10 * number + static_cast<std::uint64_t>(next() - '0');
  }
  if (place == first) file.fail("its header has something else than numbers; expected width, height and 255");
  return number;
}

/// Without white space there, a digit of the header would be taken for a pixel or the other way round.
void check_white_space(const ImageFile& file, std::size_t place, const char* before) {
  if (std::isspace(file.bytes(place, 1)[0]) == 0)
    file.fail(fmt::format("its header has no white space after {}; expected one byte of it", before));
}

GrayImage read_pgm(const ImageFile& file) {
  std::size_t place = 2;
  check_white_space(file, place, "P5");
  const std::uint64_t width = header_number(file, place), height = header_number(file, place),
                      most = header_number(file, place);
  GrayImage image = file.sized(height, width);
  if (most < 1 || most > 255)
    file.fail(fmt::format("its largest gray is {}; expected 1 to 255, which is 8 bits a pixel", most));
  check_white_space(file, place, "its largest gray");
  const ByteView grays = file.bytes(place + 1, height * width);
  if (file.size() > place + 1 + grays.size())
    file.fail(fmt::format("it has {} bytes after its pixels; expected none",
                          file.size() - place - 1 - grays.size()));
  for (const std::uint8_t gray : grays) {
    if (gray > most)
      file.fail(fmt::format("a pixel is {}; expected {} at most, as its header says", gray, most));
    image.pixels.push_back(static_cast<std::uint8_t>((gray * 255U + most / 2) / most));
  }
  return image;
}

}  // namespace

bool is_image_name(const std::filesystem::path& file) {
  std::string end = file.extension().string();
  std::ranges::transform(end, end.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".png" || end == ".pgm";
}

GrayImage read_gray_image(const std::filesystem::path& file) {
  const ImageFile image(file);
  if (image.begins_with(png::signature)) return read_png(image);
  if (image.begins_with("P5")) return read_pgm(image);
  image.fail("it is no image that can be read; expected PNG, or PGM in its binary form (P5)");
}

}  // namespace orthornn
