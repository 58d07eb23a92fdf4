#include "tasks/sequences/npz_file.hpp"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

using Bytes = std::vector<std::uint8_t>;

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw FileError(fmt::format("{}: {}", name, why));
}

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

/// Deflate makes nothing more than about a thousand times smaller. What grows to gigabytes out of little is
/// made to fill the memory.
constexpr std::uint64_t unsuspicious = std::uint64_t{1} << 30, largest_ratio = 200;

Bytes read_member(const std::string& name, zip_t* archive, zip_uint64_t number) {
  zip_stat_t properties;
  zip_stat_init(&properties);
  if (zip_stat_index(archive, number, 0, &properties) != 0) fail(name, zip_strerror(archive));
  const std::unique_ptr<zip_file_t, Discard> member(zip_fopen_index(archive, number, 0));
  if (member == nullptr)
    fail(name, fmt::format("it cannot be read ({}); write it again", zip_strerror(archive)));
  Bytes bytes;
  Bytes piece(std::size_t{1} << 18);
  while (true) {
    const zip_int64_t count = zip_fread(member.get(), piece.data(), piece.size());
    if (count < 0) {
      fail(name,
           fmt::format("it is damaged ({}); use another copy of the file", zip_file_strerror(member.get())));
    }
    if (count == 0) return bytes;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + count);
    if (bytes.size() > unsuspicious && bytes.size() / largest_ratio > properties.comp_size) {
      fail(name, fmt::format("it is more than {} times as long as in the archive, which is taken for a zip "
                             "bomb; if it is none, write it without compression (numpy.savez)",
                             largest_ratio));
    }
  }
}

/// The text between `before` and the next `after` in a header.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  const std::size_t from = begin + before.size(), end = text.find(after, from);
  return end == std::string_view::npos ? std::string_view() : text.substr(from, end - from);
}

/// "(3, 4)" without its brackets.
Shape parse_shape(const std::string& name, std::string_view text) {
  Shape shape;
  Index count = 1;
  while (!text.empty()) {
    const std::size_t digit = text.find_first_of("0123456789");
    if (digit == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
    Index size = 0;
    bool fits = end - digit <= 15;
    for (std::size_t i = digit; fits && i < end; ++i) size = 10 * size + (text[i] - '0');
    fits = fits && shape.rank() < Shape::max_rank &&
           !__builtin_mul_overflow(count, std::max<Index>(size, 1), &count);
    if (!fits) fail(name, fmt::format("its shape ({}) is larger than any memory", text));
    shape.append(size);
    text.remove_prefix(end);
  }
  return shape;
}

/// The number of T at these bytes, in the byte order of the file.
template <class T>
T number_at(const std::uint8_t* bytes, bool swapped) {
  std::array<std::uint8_t, sizeof(T)> copied;
  std::memcpy(copied.data(), bytes, sizeof(T));
  if (swapped) std::ranges::reverse(copied);
  return std::bit_cast<T>(copied);
}

template <class From, class To>
void convert(const std::uint8_t* bytes, bool swapped, Tensor<To>& to) {
  for (Index i = 0; i < to.size(); ++i)
    to.data()[i] = static_cast<To>(number_at<From>(bytes + i * static_cast<Index>(sizeof(From)), swapped));
}

}  // namespace

NumpyArray parse_npy(const std::string& name, const std::vector<std::uint8_t>& bytes) {
  constexpr std::string_view magic = "\x93NUMPY";
  constexpr std::size_t longest_header = 65536;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(magic) || text.size() < 12) fail(name, "it is no array of NumPy (.npy)");
  const bool wide = bytes[6] >= 2;
  const std::size_t begin = wide ? 12 : 10;
  const std::size_t length =
      wide ? number_at<std::uint32_t>(&bytes[8], std::endian::native == std::endian::big)
           : bytes[8] + 256U * bytes[9];
  if (length > longest_header || begin + length > bytes.size()) fail(name, "its header is cut off");
  const std::string_view header = text.substr(begin, length);
  const std::string type(between(header, "'descr': '", "'"));
  if (between(header, "'fortran_order': ", ",") != "False")
    fail(name, "it is in Fortran order; expected C order, as numpy.ascontiguousarray makes it");
  if (type.size() < 2) fail(name, "its type is not a plain one; expected integers or floating-point numbers");
  NumpyArray array{.shape = parse_shape(name, between(header, "'shape': (", ")"))};
  const std::string kind = type.substr(1);
  const bool swapped = (type[0] == '>') != (std::endian::native == std::endian::big) && type[0] != '|';
  array.is_integer = kind[0] == 'i' || kind[0] == 'u' || kind[0] == 'b';
  const std::uint8_t* numbers = bytes.data() + begin + length;
  const std::size_t stored = bytes.size() - begin - length;
  const auto read = [&]<class From>(From) {
    if (static_cast<std::size_t>(array.shape.count()) != stored / sizeof(From) ||
        stored % sizeof(From) != 0) {
      fail(name, fmt::format("its shape {} of {} bytes each does not fit the {} bytes that it has",
                             to_string(array.shape), sizeof(From), stored));
    }
    if constexpr (std::is_integral_v<From>) {
      array.integers.reserve(array.shape);
      convert<From>(numbers, swapped, array.integers);
    } else {
      array.reals.reserve(array.shape);
      convert<From>(numbers, swapped, array.reals);
    }
  };
  if (kind == "f4")
    read(float{});
  else if (kind == "f8")
    read(double{});
  else if (kind == "b1" || kind == "u1")
    read(std::uint8_t{});
  else if (kind == "i1")
    read(std::int8_t{});
  else if (kind == "i2")
    read(std::int16_t{});
  else if (kind == "u2")
    read(std::uint16_t{});
  else if (kind == "i4")
    read(std::int32_t{});
  else if (kind == "u4")
    read(std::uint32_t{});
  else if (kind == "i8")
    read(std::int64_t{});
  else if (kind == "O")
    fail(name,
         "it has Python objects (a pickle), which are never read; expected integers or floating-point "
         "numbers");
  else
    fail(name,
         fmt::format("its type is '{}'; expected integers of 8 to 64 bits or floating-point numbers of 32 "
                     "or 64",
                     type.substr(0, 20)));
  return array;
}

std::map<std::string, NumpyArray> read_npz(const std::filesystem::path& file) {
  int code = 0;
  const std::unique_ptr<zip_t, Discard> archive(zip_open(file.c_str(), ZIP_RDONLY, &code));
  if (archive == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail(file.string(), fmt::format("it is no .npz file that can be read ({})", reason));
  }
  constexpr zip_int64_t most_members = 1000;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  if (count > most_members)
    fail(file.string(), fmt::format("it has {} members; expected at most {}", count, most_members));
  std::map<std::string, NumpyArray> arrays;
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* found = zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_GUESS);
    std::string member = found == nullptr ? "" : found;
    if (!member.ends_with(".npy")) continue;
    member.resize(member.size() - 4);
    const std::string name = fmt::format("{} ({})", file.string(), member);
    arrays.insert_or_assign(member,
                            parse_npy(name, read_member(name, archive.get(), static_cast<zip_uint64_t>(i))));
  }
  return arrays;
}

}  // namespace orthornn
