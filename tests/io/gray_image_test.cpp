#include "io/gray_image.hpp"

#include <sys/stat.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "io/png.hpp"
#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

namespace orthornn::testing {
namespace {

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

// 10 rows of 6 pixels of 8 bits, in two IDAT chunks. Row y has the filter y mod 5 of the PNG specification,
// so that each of them comes first in no image and second in one. A script of Python made it by the formulas
// of the specification, and Pillow 13.0 reads the pixels of `gray_of` from it.
const std::string all_filters = from_hex(
    "89504e470d0a1a0a0000000d49484452000000060000000a0800000000b26570ef000000144944415478da6360509de21b309731"
    "daa8"
    "e69840145374468214254a00000036494441546953ff1ce66db7da0c633b58a2234bdf9acf6138ae7bf7baf44a46a5e2bdec81b3"
    "614a"
    "66552fbb54bb92257ad613bd8a4300a5ca1cc5e6c1e93f0000000049454e44ae426082");
long gray_of(long y, long x) { return (37 * x * x + 91 * y + 13 * x * y) % 256; }

// 7 rows of 7 pixels of 2 bits, whose gray is (x + y) mod 4; by the same script.
const std::string two_bits = from_hex(
    "89504e470d0a1a0a0000000d4948445200000007000000070200000000ab8910ae000000174944415478da63909660c8c961d8b8"
    "81e1"
    "d81106181b003c0b0663131d78a90000000049454e44ae426082");

GrayImage image_of(const std::string& bytes) {
  const TemporaryFolder folder;
  return read_gray_image(write_text(folder / "image", bytes));
}

std::string image_refusal(const std::string& bytes) {
  return error_message<FileError>([&] { image_of(bytes); });
}

}  // namespace

TEST_CASE("PNG images are read with all filters and fewer bits", "[image]") {
  const GrayImage eight = image_of(all_filters);
  REQUIRE((eight.height == 10 && eight.width == 6));
  for (long i = 0; i < 60; ++i) CHECK(eight.pixels[static_cast<std::size_t>(i)] == gray_of(i / 6, i % 6));
  const GrayImage two = image_of(two_bits);
  REQUIRE((two.height == 7 && two.width == 7));
  for (long i = 0; i < 49; ++i) CHECK(two.pixels[static_cast<std::size_t>(i)] == 85 * ((i / 7 + i % 7) % 4));
}

TEST_CASE("PGM images are read with comments and other largest grays", "[image]") {
  const GrayImage image =
      image_of("P5 # made by hand\n3 2\n# the largest gray\n5\n" + std::string("\0\1\2\3\4\5", 6));
  REQUIRE((image.height == 2 && image.width == 3));
  CHECK(image.pixels == std::vector<std::uint8_t>{0, 51, 102, 153, 204, 255});
}

TEST_CASE("images that are written are read again, and animations begin as an image", "[image]") {
  GrayImage image{.height = 5, .width = 3};
  for (int i = 0; i < 15; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 17));
  CHECK(image_of(png::still(image)).pixels == image.pixels);
  GrayImage other = image;
  other.pixels[7] = 200;
  const std::string moving = png::animation(std::vector{other, image, image}, 40);
  CHECK(image_of(moving).pixels == other.pixels);
  // Three frames for ever, 40 / 1000 s each: the chunks of the APNG specification.
  CHECK_THAT(moving, contains(std::string("acTL\0\0\0\3\0\0\0\0", 12)));
  const std::string size("\0\0\0\3\0\0\0\5", 8), no_offset(8, '\0'), delay("\0\x28\x03\xe8", 4);
  for (const char number : {'\0', '\1', '\3'})
    CHECK_THAT(moving, contains(std::string("fcTL\0\0\0", 7) + number + size + no_offset + delay));
  for (const char number : {'\2', '\4'}) CHECK_THAT(moving, contains(std::string("fdAT\0\0\0", 7) + number));
}

TEST_CASE("hostile images are refused", "[image]") {
  CHECK_THAT(image_refusal(""), contains("PNG, or PGM"));
  CHECK_THAT(image_refusal("P2\n1 1\n255\n7"), contains("binary form (P5)"));
  for (std::size_t size = 8; size < all_filters.size(); ++size) {
    CAPTURE(size);
    CHECK_THAT(image_refusal(all_filters.substr(0, size)), contains("cut off") || contains("damaged"));
  }
  // A checksum finds every changed byte.
  for (std::size_t i = 8; i < all_filters.size(); ++i) {
    CAPTURE(i);
    std::string changed = all_filters;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    CHECK(!image_refusal(changed).empty());
  }
  // The header of an image of 4 x 4 pixels, and the pixels of one of 8 x 4.
  const auto png_of = [](Index height) {
    return png::still({.height = height,
                       .width = 4,
                       .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(4 * height), 7)});
  };
  constexpr std::size_t header = 33;
  CHECK_THAT(image_refusal(png_of(4).substr(0, header) + png_of(8).substr(header)),
             contains("more than the 20 bytes"));
  CHECK_THAT(image_refusal(png_of(8).substr(0, header) + png_of(4).substr(header)),
             contains("40 bytes are expected, and 20 can be read"));
  // All pixels are there, and of their checksum two bytes are missing.
  CHECK_THAT(
      image_refusal(from_hex(
          "89504e470d0a1a0a0000000d49484452000000040000000408000000008c9ac1a20000000c49444154789c6360070206"
          "5402000474c2d966cd0000000049454e44ae426082")),
      contains("cut off"));
  CHECK_THAT(image_refusal("P5 100000 100000 255\n"), contains("100000 x 100000") && contains("2^26"));
  CHECK_THAT(image_refusal("P5 0 4 255\n"), contains("4 x 0"));
  CHECK_THAT(image_refusal("P5 99999999999 1 255\n"), contains("more than 10 digits"));
  CHECK_THAT(image_refusal("P5 2 2 65535\n12345678"), contains("65535") && contains("8 bits"));
  CHECK_THAT(image_refusal("P52 2 255\n1234"), contains("no white space after P5"));
  CHECK_THAT(image_refusal("P5 2 2 255x1234"), contains("no white space after its largest gray"));
  CHECK_THAT(image_refusal("P5 2 2 255\n123"), contains("cut off"));
  CHECK_THAT(image_refusal("P5 2 2 255\n12345"), contains("1 bytes after"));
  CHECK_THAT(image_refusal("P5 1 1 5\n\x06"), contains("6") && contains("5 at most"));
  CHECK_THAT(image_refusal("P5 2 x 255\n"), contains("else than numbers"));
  const TemporaryFolder folder;
  const auto of = [](const std::filesystem::path& path) {
    return error_message<FileError>([&] { read_gray_image(path); });
  };
  CHECK_THAT(of(folder.path()), contains("no regular file"));
  CHECK_THAT(of(folder / "none.png"), contains("none.png"));
  std::filesystem::resize_file(write_text(folder / "long.png", ""), (std::uintmax_t{1} << 28) + 1);
  CHECK_THAT(of(folder / "long.png"), contains("larger than 256 MiB"));
  REQUIRE(mkfifo((folder / "pipe.png").c_str(), 0600) == 0);
  CHECK_THAT(of(folder / "pipe.png"), contains("no regular file"));  // and nothing waits for it
}

}  // namespace orthornn::testing
