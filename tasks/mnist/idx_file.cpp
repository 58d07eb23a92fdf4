#include "tasks/mnist/idx_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include "core/quantity.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// A file that zlib unpacks when it is gzipped and passes through when it is not.
class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    // A folder can be opened, and fails only when it is read.
    if (file_ == nullptr) fail(fmt::format("it cannot be opened ({})", std::strerror(errno)));
    gzbuffer(file_.get(), 1U << 17);
  }

  /// Reads until `to` is full or the file ends; returns how many bytes came.
  Index read(std::span<std::uint8_t> to) {
    Index total = 0;
    while (!to.empty()) {
      const std::size_t piece = std::min(to.size(), std::size_t{1} << 24);  // gzread counts in int
      const int found = gzread(file_.get(), to.data(), static_cast<unsigned>(piece));
      if (found <= 0) {
        check();
        break;
      }
      total += found;
      to = to.subspan(static_cast<std::size_t>(found));
    }
    return total;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(
        fmt::format("{}: {}; fetch it again, for example with tools/fetch-data mnist", path_.string(), what));
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  // A gzipped file that ends too soon reads like one that ends, except for this.
  void check() const {
    int code = Z_OK;
    std::string message = gzerror(file_.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return;
    if (code == Z_ERRNO) fail(fmt::format("it cannot be read ({})", std::strerror(errno)));
    const std::string prefix = path_.string() + ": ";
    if (message.starts_with(prefix)) message.erase(0, prefix.size());
    fail(fmt::format("it is damaged or truncated ({})", message));
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

Index big_endian(std::span<const std::uint8_t> bytes) {
  Index value = 0;
  for (const std::uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

void check_magic(const GzipReader& file, std::span<const std::uint8_t> found, int rank) {
  if (found[0] == 0 && found[1] == 0 && found[2] == 8 && found[3] == rank) return;
  file.fail(fmt::format("expected the magic number 00 00 08 {:02x} (unsigned bytes, {}), found {:02x}", rank,
                        quantity(rank, "dimension"), fmt::join(found, " ")));
}

}  // namespace

Tensor<std::uint8_t> read_idx(const std::filesystem::path& path, int rank) {
  GzipReader file(path);
  std::array<std::uint8_t, 4 + 4 * Shape::max_rank> buffer{};
  const std::span<std::uint8_t> header(buffer.data(), 4 + 4 * static_cast<std::size_t>(rank));
  const Index header_found = file.read(header);
  if (header_found >= 4) check_magic(file, header.first(4), rank);
  if (header_found < static_cast<Index>(header.size())) {
    file.fail(fmt::format("expected a header of {} bytes, found {}", header.size(), header_found));
  }

  // Deflate packs at most 1032 to 1: a header that promises more is wrong, and must not decide what is
  // allocated.
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(path, failed);
  if (failed) file.fail(fmt::format("its size is unknown ({})", failed.message()));
  const Index limit = 1032 * static_cast<Index>(size);
  Shape shape;
  Index count = 1;
  for (int i = 0; i < rank; ++i) {
    shape.append(big_endian(header.subspan(4 + 4 * static_cast<std::size_t>(i), 4)));
    if (shape[i] == 0) file.fail(fmt::format("expected sizes of at least 1, found a 0 as dimension {}", i));
    if (shape[i] > limit / count) file.fail("its header promises more data than a file of its size can hold");
    count *= shape[i];
  }

  Tensor<std::uint8_t> data;
  data.reserve(shape);
  const Index found = file.read({data.data(), static_cast<std::size_t>(count)});
  if (found < count) {
    file.fail(fmt::format("expected {} bytes of data ({}), found {}: it is truncated", count,
                          to_string(shape), found));
  }
  // Also makes zlib compare the checksum, which comes last.
  std::uint8_t beyond = 0;
  if (file.read({&beyond, 1}) != 0) {
    file.fail(fmt::format("expected {} bytes of data ({}), found more", count, to_string(shape)));
  }
  return data;
}

}  // namespace orthornn
