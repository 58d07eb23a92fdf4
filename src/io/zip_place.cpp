#include "io/zip_place.hpp"

#include <algorithm>
#include <string_view>

namespace orthornn {
namespace {

/// Numbers of the headers of an archive, which are little-endian (APPNOTE.TXT of PKWARE, 4.3).
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t number = 0;
  for (std::size_t i = width; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

constexpr std::string_view member_mark = "PK\x03\x04", entry_mark = "PK\x01\x02", end_mark = "PK\x05\x06",
                           long_end_mark = "PK\x06\x06", long_place_mark = "PK\x06\x07";
/// In place of a number that does not fit in 32 bits.
constexpr std::uint64_t elsewhere = 0xFFFFFFFF;

/// Bytes of the archive; fewer at its end.
std::string bytes_at(std::istream& archive, std::uint64_t first, std::uint64_t count) {
  std::string bytes(count, '\0');
  archive.clear();
  if (!archive.seekg(static_cast<std::streamoff>(first))) return "";
  archive.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<std::size_t>(archive.gcount()));
  return bytes;
}

/// A header of so many bytes with this mark; empty where there is none.
std::string header_at(std::istream& archive, std::uint64_t first, std::uint64_t count,
                      std::string_view mark) {
  std::string bytes = bytes_at(archive, first, count);
  return bytes.size() == count && bytes.starts_with(mark) ? bytes : "";
}

/// Where the directory begins.
std::optional<std::uint64_t> directory_of(std::istream& archive, std::uint64_t size) {
  constexpr std::uint64_t end_size = 22, longest_comment = 65535, long_place_size = 20, long_end_size = 56;
  const std::uint64_t from = size - std::min(size, end_size + longest_comment);
  const std::string last = bytes_at(archive, from, size - from);
  const std::size_t at = last.rfind(end_mark);
  if (at == std::string::npos || last.size() - at < end_size) return std::nullopt;
  const std::uint64_t directory = number_at(last, at + 16, 4), end = from + at;
  if (directory != elsewhere) return directory;
  if (end < long_place_size) return std::nullopt;
  const std::string place = header_at(archive, end - long_place_size, long_place_size, long_place_mark);
  if (place.empty()) return std::nullopt;
  const std::string long_end = header_at(archive, number_at(place, 8, 8), long_end_size, long_end_mark);
  if (long_end.empty()) return std::nullopt;
  return number_at(long_end, 48, 8);
}

/// Where the header of a member lies, by its entry in the directory and the extra fields of that.
std::optional<std::uint64_t> member_of(std::string_view entry, std::string_view extra) {
  const std::uint64_t place = number_at(entry, 42, 4);
  if (place != elsewhere) return place;
  // Extra field 1 has the numbers that did not fit: size, packed size, place.
  while (extra.size() >= 4) {
    const std::uint64_t id = number_at(extra, 0, 2), length = number_at(extra, 2, 2);
    if (extra.size() < 4 + length) break;
    std::size_t at = 4;
    for (const std::size_t size_at : {24, 20}) at += number_at(entry, size_at, 4) == elsewhere ? 8 : 0;
    if (id == 1 && at + 8 <= 4 + length) return number_at(extra, at, 8);
    extra.remove_prefix(4 + length);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> place_in_zip(std::istream& archive, std::uint64_t number,
                                          const std::string& name) {
  constexpr std::uint64_t entry_size = 46, member_size = 30;
  archive.seekg(0, std::ios::end);
  const std::streamoff size = archive.tellg();
  if (size < 0) return std::nullopt;
  const std::optional<std::uint64_t> directory = directory_of(archive, static_cast<std::uint64_t>(size));
  if (!directory) return std::nullopt;
  std::uint64_t at = *directory;
  for (std::uint64_t i = 0; i <= number; ++i) {
    const std::string entry = header_at(archive, at, entry_size, entry_mark);
    if (entry.empty()) return std::nullopt;
    const std::uint64_t name_size = number_at(entry, 28, 2), extra_size = number_at(entry, 30, 2);
    if (i < number) {
      at += entry_size + name_size + extra_size + number_at(entry, 32, 2);
      continue;
    }
    if (bytes_at(archive, at + entry_size, name_size) != name) return std::nullopt;
    const auto place = member_of(entry, bytes_at(archive, at + entry_size + name_size, extra_size));
    const std::string member = place ? header_at(archive, *place, member_size, member_mark) : "";
    const bool is_plain =
        !member.empty() && number_at(member, 8, 2) == 0 && (number_at(member, 6, 2) & 1) == 0;
    if (!is_plain) return std::nullopt;
    return *place + member_size + number_at(member, 26, 2) + number_at(member, 28, 2);
  }
  return std::nullopt;
}

}  // namespace orthornn
