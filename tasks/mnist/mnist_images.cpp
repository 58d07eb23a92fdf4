#include "tasks/mnist/mnist_images.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <initializer_list>
#include <system_error>

#include "orthornn/core/error.hpp"
#include "tasks/mnist/idx_file.hpp"

namespace orthornn {
namespace {

// Labels are 0 to 9.
constexpr int digits = 10;

/// The file of that kind ("images-idx3", "labels-idx1") in a folder, by any of its usual names.
std::filesystem::path find_idx_file(const char* task, const std::filesystem::path& folder,
                                    const std::string& set, const std::string& content,
                                    const std::string& kind) {
  const std::string advice =
      "name the folder with the four MNIST files, or fetch them with tools/fetch-data mnist";
  if (folder.empty())
    throw FileError(fmt::format("task {} needs its data, but no folder was given; {}", task, advice));
  for (const char* separator : {"-", "."}) {
    for (const char* ending : {"", ".gz"}) {
      std::filesystem::path path = folder / fmt::format("{}-{}{}{}{}", set, content, separator, kind, ending);
      std::error_code ignored;  // what cannot be looked at is not there
      if (std::filesystem::is_regular_file(path, ignored)) return path;
    }
  }
  throw FileError(
      fmt::format("{} has no file {}-{}-{} (nor with .gz); {}", folder.string(), set, content, kind, advice));
}

std::string counted(const char* what, const Tensor<std::uint8_t>& pixels,
                    const Tensor<std::uint8_t>& labels) {
  const std::string sizes = to_string(pixels.shape());
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(sizes.data()), sizes.size());
  for (const Tensor<std::uint8_t>* bytes : {&pixels, &labels})
    crc = crc32_z(crc, bytes->data(), static_cast<std::size_t>(bytes->size()));
  return fmt::format("{} {} images, CRC-32 {:08x}", labels.size(), what, crc);
}

}  // namespace

void read_mnist_images(const char* task, const std::filesystem::path& folder, const char* set,
                       Tensor<std::uint8_t>& pixels, Tensor<std::uint8_t>& labels) {
  const std::filesystem::path pixels_path = find_idx_file(task, folder, set, "images", "idx3-ubyte");
  const std::filesystem::path labels_path = find_idx_file(task, folder, set, "labels", "idx1-ubyte");
  pixels = read_idx(pixels_path, 3);
  labels = read_idx(labels_path, 1);
  if (pixels.shape()[0] != labels.size()) {
    throw FileError(
        fmt::format("{} has {} images, but {} has {} labels, expected as many; fetch both again, for "
                    "example with tools/fetch-data mnist",
                    pixels_path.string(), pixels.shape()[0], labels_path.string(), labels.size()));
  }
  const auto* wrong = std::ranges::find_if(labels, [](std::uint8_t label) { return label >= digits; });
  if (wrong != labels.end()) {
    throw FileError(
        fmt::format("{}: label {} is {}, expected 0 to {}; fetch it again, for example with "
                    "tools/fetch-data mnist",
                    labels_path.string(), wrong - labels.begin(), *wrong, digits - 1));
  }
}

std::string mnist_checksum(const Tensor<std::uint8_t>& pixels, const Tensor<std::uint8_t>& labels,
                           const Tensor<std::uint8_t>& test_pixels, const Tensor<std::uint8_t>& test_labels) {
  return counted("training", pixels, labels) + "; " + counted("test", test_pixels, test_labels);
}

}  // namespace orthornn
